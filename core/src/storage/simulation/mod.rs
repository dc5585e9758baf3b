//! Storages for tests.

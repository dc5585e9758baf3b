//! JSON as text in, text out.

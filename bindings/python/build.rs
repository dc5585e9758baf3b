//! Tells the sources what the Python they are built for has: `cfg(Py_3_11)` and its like.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}

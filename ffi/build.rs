//! Gives the shared library its soname: the number changes only when a program built against an older header
//! would break (`design.md` 7.10), which is never meant to happen.

/// The number in the soname; the major part of `DSH_ABI_VERSION`.
const SONAME_VERSION: u32 = 1;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libdsh_session.so.{SONAME_VERSION}");
    }
}

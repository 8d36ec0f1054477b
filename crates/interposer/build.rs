//! Link options of the shared library.

fn main() {
    // Function pointers into us are handed out by `dlsym`, and fork handlers are
    // registered: the library must outlive any `dlclose`.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}

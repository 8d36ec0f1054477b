//! A captured graph, ready to launch. Made by [`Stream::capture`] only.

use std::ptr;
use std::sync::Arc;

use airamp_vendor_abi::cuda;

use super::driver::{Driver, GpuError};
use super::queue::Stream;

/// An instantiated graph.
pub struct GraphExec {
    driver: Arc<Driver>,
    raw: cuda::GraphExec,
}

impl GraphExec {
    pub(super) fn instantiate(driver: Arc<Driver>, graph: cuda::Graph) -> Result<Self, GpuError> {
        let mut raw = ptr::null_mut();
        let instantiated = driver.graph_instantiate(&mut raw, graph, 0);
        // The executable does not need its template any more.
        driver.graph_destroy(graph)?;
        instantiated?;
        Ok(Self { driver, raw })
    }

    pub fn launch(&self, stream: &Stream) -> Result<(), GpuError> {
        self.driver.graph_launch(self.raw, stream.raw())
    }
}

impl Drop for GraphExec {
    fn drop(&mut self) {
        let _ = self.driver.graph_exec_destroy(self.raw);
    }
}

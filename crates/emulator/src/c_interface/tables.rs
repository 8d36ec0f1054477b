//! Functions that CUDA's driver interface, its runtime interface and HIP all have, under
//! three names, or the driver and HIP under two. A body is written against [`crate::gpu`]
//! and may use its pointers as the header of that function says.

/// `driver / runtime / HIP`, for functions that work without a current context.
#[macro_export]
macro_rules! for_each_function_without_context {
    ($consumer:ident) => {
        $consumer! {
            cuDriverGetVersion / cudaDriverGetVersion / hipDriverGetVersion (version: *mut c_int) {
                put(version, environment::number("AIRAMP_EMU_DRIVER_VERSION") as c_int)
            }
            cuDeviceGetAttribute / cudaDeviceGetAttribute / hipDeviceGetAttribute (value: *mut c_int, attribute: c_int, ordinal: c_int) {
                put(value, attributes::attribute(process::device(ordinal)?, attribute)?)
            }
            cuDeviceGetPCIBusId / cudaDeviceGetPCIBusId / hipDeviceGetPCIBusId (to: *mut c_char, len: c_int, ordinal: c_int) {
                put_text(to, len, &attributes::pci_bus_id(process::device(ordinal)?))
            }
            cuDeviceCanAccessPeer / cudaDeviceCanAccessPeer / hipDeviceCanAccessPeer (can: *mut c_int, ordinal: c_int, peer: c_int) {
                process::device(ordinal)?;
                process::device(peer)?;
                put(can, c_int::from(ordinal != peer))
            }
            cuStreamDestroy_v2 / cudaStreamDestroy / hipStreamDestroy (stream: usize) {
                stream::destroy(stream)
            }
            cuEventDestroy_v2 / cudaEventDestroy / hipEventDestroy (event: usize) {
                event::destroy(event)
            }
            cuEventQuery / cudaEventQuery / hipEventQuery (event: usize) {
                event::query(event)
            }
            cuEventSynchronize / cudaEventSynchronize / hipEventSynchronize (event: usize) {
                event::synchronize(event)
            }
            cuEventElapsedTime / cudaEventElapsedTime / hipEventElapsedTime (milliseconds: *mut f32, start: usize, end: usize) {
                put(milliseconds, event::elapsed_ms(start, end)?)
            }
            cuThreadExchangeStreamCaptureMode / cudaThreadExchangeStreamCaptureMode / hipThreadExchangeStreamCaptureMode (mode: *mut c_int) {
                if mode.is_null() {
                    return Err(CudaError::INVALID_VALUE);
                }
                put(mode, capture::exchange_thread_mode(*mode)?)
            }
            cuGraphCreate / cudaGraphCreate / hipGraphCreate (graph: *mut usize, _flags: c_uint) {
                put(graph, graph::create()?)
            }
            cuGraphDestroy / cudaGraphDestroy / hipGraphDestroy (graph: usize) {
                graph::destroy(graph)
            }
            cuGraphExecDestroy / cudaGraphExecDestroy / hipGraphExecDestroy (executable: usize) {
                replay::destroy(executable)
            }
            cuGraphGetNodes / cudaGraphGetNodes / hipGraphGetNodes (graph: usize, nodes: *mut usize, count: *mut usize) {
                graph_nodes(graph, nodes, count)
            }
            cuUserObjectCreate / cudaUserObjectCreate / hipUserObjectCreate (object: *mut usize, data: *mut c_void, destroy: Option<HostFn>, references: c_uint, _flags: c_uint) {
                let destroy = destroy.ok_or(CudaError::INVALID_VALUE)?;
                put(object, user_object::create(data, destroy, references)?)
            }
            cuUserObjectRetain / cudaUserObjectRetain / hipUserObjectRetain (object: usize, count: c_uint) {
                user_object::retain(object, count)
            }
            cuUserObjectRelease / cudaUserObjectRelease / hipUserObjectRelease (object: usize, count: c_uint) {
                user_object::release(object, count)
            }
            cuGraphRetainUserObject / cudaGraphRetainUserObject / hipGraphRetainUserObject (graph: usize, object: usize, count: c_uint, flags: c_uint) {
                graph::retain_user_object(graph, object, count, flags & 1 != 0)
            }
            cuGraphReleaseUserObject / cudaGraphReleaseUserObject / hipGraphReleaseUserObject (graph: usize, object: usize, count: c_uint) {
                graph::release_user_object(graph, object, count)
            }
        }
    };
}

/// `driver / runtime / HIP`, for functions that act on the current context.
#[macro_export]
macro_rules! for_each_function_in_context {
    ($consumer:ident) => {
        $consumer! {
            cuCtxSynchronize / cudaDeviceSynchronize / hipDeviceSynchronize () {
                context::current()?.synchronize()
            }
            cuCtxGetStreamPriorityRange / cudaDeviceGetStreamPriorityRange / hipDeviceGetStreamPriorityRange (least: *mut c_int, greatest: *mut c_int) {
                offer(least, stream::PRIORITIES.0);
                offer(greatest, stream::PRIORITIES.1);
                Ok(())
            }
            cuMemGetInfo_v2 / cudaMemGetInfo / hipMemGetInfo (free: *mut usize, total: *mut usize) {
                let (unused, all) = memory::info(context::current()?);
                offer(free, unused as usize);
                offer(total, all as usize);
                Ok(())
            }
            cuMemFree_v2 / cudaFree / hipFree (ptr: u64) {
                memory::free(ptr).map_err(Fault::told)
            }
            cuMemAllocHost_v2 / cudaMallocHost / hipMallocHost (ptr: *mut u64, len: usize) {
                put(ptr, host_memory::alloc(len)?)
            }
            cuMemHostAlloc / cudaHostAlloc / hipHostMalloc (ptr: *mut u64, len: usize, _flags: c_uint) {
                put(ptr, host_memory::alloc(len)?)
            }
            cuMemFreeHost / cudaFreeHost / hipHostFree (ptr: u64) {
                host_memory::free(ptr)
            }
            cuMemHostRegister_v2 / cudaHostRegister / hipHostRegister (ptr: u64, len: usize, _flags: c_uint) {
                host_memory::register(ptr, len)
            }
            cuMemHostUnregister / cudaHostUnregister / hipHostUnregister (ptr: u64) {
                host_memory::unregister(ptr)
            }
            cuMemHostGetDevicePointer_v2 / cudaHostGetDevicePointer / hipHostGetDevicePointer (device: *mut u64, host: u64, _flags: c_uint) {
                if !host_memory::contains(host, 1) {
                    return Err(CudaError::INVALID_VALUE);
                }
                put(device, host)
            }
            cuStreamCreate / cudaStreamCreateWithFlags / hipStreamCreateWithFlags (stream: *mut usize, flags: c_uint) {
                put(stream, stream::create(flags, 0)?)
            }
            cuStreamCreateWithPriority / cudaStreamCreateWithPriority / hipStreamCreateWithPriority (stream: *mut usize, flags: c_uint, priority: c_int) {
                put(stream, stream::create(flags, priority)?)
            }
            cuStreamSynchronize / cudaStreamSynchronize / hipStreamSynchronize (stream: usize) {
                stream::synchronize(stream)
            }
            cuStreamQuery / cudaStreamQuery / hipStreamQuery (stream: usize) {
                stream::query(stream)
            }
            cuStreamGetFlags / cudaStreamGetFlags / hipStreamGetFlags (stream: usize, flags: *mut c_uint) {
                put(flags, stream::find(stream)?.flags)
            }
            cuStreamGetPriority / cudaStreamGetPriority / hipStreamGetPriority (stream: usize, priority: *mut c_int) {
                put(priority, stream::find(stream)?.priority)
            }
            cuStreamGetDevice / cudaStreamGetDevice / hipStreamGetDevice (stream: usize, ordinal: *mut c_int) {
                put(ordinal, stream::device_of(stream)?)
            }
            cuStreamWaitEvent / cudaStreamWaitEvent / hipStreamWaitEvent (stream: usize, event: usize, flags: c_uint) {
                event::wait_with_flags(stream, event, flags)
            }
            cuLaunchHostFunc / cudaLaunchHostFunc / hipLaunchHostFunc (stream: usize, function: Option<HostFn>, data: *mut c_void) {
                host_function(stream, function, data)
            }
            cuEventCreate / cudaEventCreateWithFlags / hipEventCreateWithFlags (event: *mut usize, flags: c_uint) {
                put(event, event::create(flags)?)
            }
            cuEventRecord / cudaEventRecord / hipEventRecord (event: usize, stream: usize) {
                event::record(stream, event)
            }
            cuEventRecordWithFlags / cudaEventRecordWithFlags / hipEventRecordWithFlags (event: usize, stream: usize, flags: c_uint) {
                event::record_with_flags(stream, event, flags)
            }
            cuStreamBeginCapture_v2 / cudaStreamBeginCapture / hipStreamBeginCapture (stream: usize, mode: c_int) {
                capture::begin(stream, mode)
            }
            cuStreamEndCapture / cudaStreamEndCapture / hipStreamEndCapture (stream: usize, graph: *mut usize) {
                offer(graph, 0);
                put(graph, capture::end(stream)?)
            }
            cuStreamIsCapturing / cudaStreamIsCapturing / hipStreamIsCapturing (stream: usize, status: *mut c_int) {
                put(status, capture_status(stream)?)
            }
            cuStreamGetCaptureInfo_v2 / cudaStreamGetCaptureInfo_v2 / hipStreamGetCaptureInfo_v2 (stream: usize, status: *mut c_int, id: *mut u64, graph: *mut usize, after: *mut *const usize, after_count: *mut usize) {
                put(status, capture_status(stream)?)?;
                capture_info(stream, id, graph, after, after_count)
            }
            cuGraphInstantiateWithFlags / cudaGraphInstantiateWithFlags / hipGraphInstantiateWithFlags (executable: *mut usize, graph: usize, _flags: u64) {
                put(executable, replay::instantiate(graph)?)
            }
            cuGraphUpload / cudaGraphUpload / hipGraphUpload (_executable: usize, stream: usize) {
                stream::find(stream).map(drop)
            }
            cuGraphLaunch / cudaGraphLaunch / hipGraphLaunch (executable: usize, stream: usize) {
                replay::launch(executable, stream)
            }
        }
    };
}

/// `driver / HIP`, for functions that work without a current context.
#[macro_export]
macro_rules! for_each_driver_function_without_context {
    ($consumer:ident) => {
        $consumer! {
            cuDeviceGet / hipDeviceGet (device: *mut c_int, ordinal: c_int) {
                process::device(ordinal)?;
                put(device, ordinal)
            }
            cuDeviceGetName / hipDeviceGetName (to: *mut c_char, len: c_int, ordinal: c_int) {
                put_text(to, len, &attributes::name(process::device(ordinal)?))
            }
            cuDeviceTotalMem_v2 / hipDeviceTotalMem (bytes: *mut usize, ordinal: c_int) {
                put(bytes, attributes::total_memory(process::device(ordinal)?) as usize)
            }
            cuDeviceGetUuid_v2 / hipDeviceGetUuid (uuid: *mut [u8; 16], ordinal: c_int) {
                put(uuid, attributes::uuid(process::device(ordinal)?))
            }
            cuDevicePrimaryCtxRetain / hipDevicePrimaryCtxRetain (context: *mut usize, ordinal: c_int) {
                put(context, context::retain_primary(ordinal)?)
            }
            cuDevicePrimaryCtxRelease_v2 / hipDevicePrimaryCtxRelease (ordinal: c_int) {
                context::release_primary(ordinal)
            }
            cuDevicePrimaryCtxReset_v2 / hipDevicePrimaryCtxReset (ordinal: c_int) {
                process::device(ordinal)?.reset()
            }
            cuDevicePrimaryCtxSetFlags_v2 / hipDevicePrimaryCtxSetFlags (ordinal: c_int, _flags: c_uint) {
                process::device(ordinal).map(drop)
            }
            cuDevicePrimaryCtxGetState / hipDevicePrimaryCtxGetState (ordinal: c_int, flags: *mut c_uint, active: *mut c_int) {
                put(flags, 0)?;
                put(active, c_int::from(context::primary_is_active(ordinal)?))
            }
            cuCtxCreate_v2 / hipCtxCreate (context: *mut usize, _flags: c_uint, ordinal: c_int) {
                put(context, context::create(ordinal)?)
            }
            cuCtxDestroy_v2 / hipCtxDestroy (context: usize) {
                context::destroy(context)
            }
            cuCtxPushCurrent_v2 / hipCtxPushCurrent (context: usize) {
                context::push(context)
            }
            cuCtxPopCurrent_v2 / hipCtxPopCurrent (context: *mut usize) {
                let popped = context::pop()?;
                offer(context, popped);
                Ok(())
            }
            cuCtxSetCurrent / hipCtxSetCurrent (context: usize) {
                context::set_current_handle(context)
            }
            cuCtxGetCurrent / hipCtxGetCurrent (context: *mut usize) {
                put(context, context::current_handle()?)
            }
            cuPointerGetAttribute / hipPointerGetAttribute (to: *mut c_void, attribute: c_int, ptr: u64) {
                put_pointer_attribute(to, attribute, ptr)
            }
            cuMemGetAddressRange_v2 / hipMemGetAddressRange (base: *mut u64, len: *mut usize, ptr: u64) {
                let range = memory::range_of(ptr)?;
                offer(base, range.0);
                offer(len, range.1);
                Ok(())
            }
        }
    };
}

/// `driver / HIP`, for functions that act on the current context.
#[macro_export]
macro_rules! for_each_driver_function_in_context {
    ($consumer:ident) => {
        $consumer! {
            cuCtxGetDevice / hipCtxGetDevice (ordinal: *mut c_int) {
                put(ordinal, current_device()?)
            }
            cuMemcpyHtoD_v2 / hipMemcpyHtoD (to: u64, from: u64, len: usize) {
                copy::synchronous(Copy { to, from, len, direction: MEMCPY_HOST_TO_DEVICE })
            }
            cuMemcpyDtoH_v2 / hipMemcpyDtoH (to: u64, from: u64, len: usize) {
                copy::synchronous(Copy { to, from, len, direction: MEMCPY_DEVICE_TO_HOST })
            }
            cuMemcpyDtoD_v2 / hipMemcpyDtoD (to: u64, from: u64, len: usize) {
                copy::synchronous(Copy { to, from, len, direction: MEMCPY_DEVICE_TO_DEVICE })
            }
            cuMemcpyHtoDAsync_v2 / hipMemcpyHtoDAsync (to: u64, from: u64, len: usize, stream: usize) {
                copy::asynchronous(stream, Copy { to, from, len, direction: MEMCPY_HOST_TO_DEVICE })
            }
            cuMemcpyDtoHAsync_v2 / hipMemcpyDtoHAsync (to: u64, from: u64, len: usize, stream: usize) {
                copy::asynchronous(stream, Copy { to, from, len, direction: MEMCPY_DEVICE_TO_HOST })
            }
            cuMemcpyDtoDAsync_v2 / hipMemcpyDtoDAsync (to: u64, from: u64, len: usize, stream: usize) {
                copy::asynchronous(stream, Copy { to, from, len, direction: MEMCPY_DEVICE_TO_DEVICE })
            }
            cuMemsetD8_v2 / hipMemsetD8 (to: u64, value: u8, count: usize) {
                copy::fill(STREAM_LEGACY, to, &[value], count)
            }
            cuMemsetD16_v2 / hipMemsetD16 (to: u64, value: u16, count: usize) {
                copy::fill(STREAM_LEGACY, to, &value.to_le_bytes(), count)
            }
            cuMemsetD32_v2 / hipMemsetD32 (to: u64, value: c_uint, count: usize) {
                copy::fill(STREAM_LEGACY, to, &value.to_le_bytes(), count)
            }
            cuMemsetD8Async / hipMemsetD8Async (to: u64, value: u8, count: usize, stream: usize) {
                copy::fill(stream, to, &[value], count)
            }
            cuMemsetD16Async / hipMemsetD16Async (to: u64, value: u16, count: usize, stream: usize) {
                copy::fill(stream, to, &value.to_le_bytes(), count)
            }
            cuMemsetD32Async / hipMemsetD32Async (to: u64, value: c_uint, count: usize, stream: usize) {
                copy::fill(stream, to, &value.to_le_bytes(), count)
            }
            cuModuleLoad / hipModuleLoad (module: *mut usize, path: *const c_char) {
                let image = std::fs::read(text(path)?).map_err(|_| CudaError(301))?;
                put(module, module::load(&image)?)
            }
            cuModuleLoadData / hipModuleLoadData (module: *mut usize, image: *const u8) {
                put(module, module::load(image_at(image)?)?)
            }
            cuModuleLoadDataEx / hipModuleLoadDataEx (module: *mut usize, image: *const u8, _count: c_uint, _options: *mut c_int, _values: *mut *mut c_void) {
                put(module, module::load(image_at(image)?)?)
            }
            cuModuleUnload / hipModuleUnload (module: usize) {
                module::unload(module)
            }
            cuModuleGetFunction / hipModuleGetFunction (function: *mut usize, module: usize, name: *const c_char) {
                put(function, module::function(module, text(name)?)?)
            }
            cuLaunchKernel / hipModuleLaunchKernel (function: usize, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared_bytes: c_uint, stream: usize, each: *mut *mut c_void, extra: *mut *mut c_void) {
                let launch = Launch {
                    grid: [grid_x, grid_y, grid_z],
                    block: [block_x, block_y, block_z],
                    shared_bytes,
                    arguments: arguments(function, each, extra)?,
                };
                module::launch(function, stream, launch)
            }
        }
    };
}

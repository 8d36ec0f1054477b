//! The product's kernels as the emulator executes them: the codec's bits, for every type
//! and format, and a fault with a sentence for each misuse.

mod gpu;

use airamp_codec::{self as codec, Element, Format, Stats, Tag, packet_bytes};
use airamp_emulator::gpu::kernels::Launch;
use airamp_emulator::gpu::{copy, memory, module, stream};
use airamp_vendor_abi::cuda::{CudaError, MEMCPY_DEFAULT, STREAM_NON_BLOCKING};
use gpu::code_object::cubin;
use gpu::in_own_process;

/// Bytes that arguments are made of, in the order of a kernel's parameters.
#[derive(Clone, Copy)]
enum Argument {
    Long(u64),
    Short(u32),
}
use Argument::{Long, Short};

const TAG: Tag = Tag { call: 11, part: 22 };
const OUT_TAG: Tag = Tag { call: 33, part: 44 };
/// Bytes of the counters.
const STATS: usize = 40;

/// Loading may wait for the device: before a launch whose order matters.
fn kernel(name: &str) -> usize {
    let module = module::load(&cubin(&[name])).unwrap();
    module::function(module, name).unwrap()
}

fn launch_on(stream: usize, function: usize, arguments: &[Argument]) -> Result<(), CudaError> {
    let arguments = arguments.iter().map(|argument| match argument {
        Long(value) => Box::from(value.to_le_bytes()),
        Short(value) => Box::from(value.to_le_bytes()),
    });
    let launch =
        Launch { grid: [3, 1, 1], block: [256, 1, 1], shared_bytes: 0, arguments: arguments.collect() };
    module::launch(function, stream, launch)
}

fn non_blocking() -> usize {
    stream::create(STREAM_NON_BLOCKING, 0).unwrap()
}

/// Launches and waits.
fn run(name: &str, arguments: &[Argument]) -> Result<(), CudaError> {
    let stream = non_blocking();
    launch_on(stream, kernel(name), arguments)?;
    stream::synchronize(stream)
}

fn upload(bytes: &[u8]) -> u64 {
    let at = memory::alloc(bytes.len()).unwrap();
    let copy =
        copy::Copy { to: at, from: bytes.as_ptr() as u64, len: bytes.len(), direction: MEMCPY_DEFAULT };
    copy::synchronous(copy).unwrap();
    at
}

fn download(at: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let copy = copy::Copy { to: bytes.as_mut_ptr() as u64, from: at, len, direction: MEMCPY_DEFAULT };
    copy::synchronous(copy).unwrap();
    bytes
}

/// Elements around 1, with one that is not finite.
fn elements(element: Element, count: usize, seed: usize) -> Vec<u8> {
    let value = |index: usize| -> Vec<u8> {
        let fraction = (index * 7919 + seed * 104_729) % 128;
        let finite = index != 5;
        match element {
            Element::F16 => (if finite { 0x3c00 + fraction as u16 } else { 0x7c00 }).to_le_bytes().to_vec(),
            Element::Bf16 => (if finite { 0x3f00 + fraction as u16 } else { 0x7f80 }).to_le_bytes().to_vec(),
            Element::F32 => (if finite { 1.0 + fraction as f32 } else { f32::NAN }).to_le_bytes().to_vec(),
        }
    };
    (0..count).flat_map(value).collect()
}

fn packet_of(element: Element, input: &[u8], format: Format, tag: Tag) -> (Vec<u8>, Stats) {
    let mut packet = vec![0; packet_bytes(input.len() / element.size())];
    let stats = codec::quantise(element, input, format, tag, &mut packet);
    (packet, stats)
}

fn counters(at: u64) -> [u64; 5] {
    let bytes = download(at, STATS);
    std::array::from_fn(|index| u64::from_le_bytes(*bytes[index * 8..].first_chunk().unwrap()))
}

fn every_case() -> impl Iterator<Item = (Element, Format)> {
    Element::ALL.into_iter().flat_map(|element| Format::ALL.into_iter().map(move |format| (element, format)))
}

#[test]
fn a_buffer_is_written_as_packets_and_read_back() {
    const COUNT: usize = 700;
    for (element, format) in every_case() {
        let input = elements(element, COUNT, 0);
        let (from, stats, stride) = (upload(&input), upload(&[0; STATS]), packet_bytes(256));
        let packets = upload(&vec![0xee; 3 * stride]);
        let quantise = [
            Long(from),
            Long(COUNT as u64),
            Long(packets),
            Long(stride as u64),
            Long(2),
            Long(TAG.call),
            Long(TAG.part),
            Long(stats),
        ];
        run(&format!("airamp_quantise_{}_{}", element.name(), format.name()), &quantise).unwrap();
        let (written, mut expected) = (download(packets, 3 * stride), Stats::default());
        let output = upload(&vec![0; COUNT * element.size()]);
        let dequantise = [
            Long(packets),
            Long(stride as u64),
            Long(2),
            Long(COUNT as u64),
            Long(TAG.call),
            Long(TAG.part),
            Long(output),
            Long(stats),
        ];
        run(&format!("airamp_dequantise_{}_{}", element.name(), format.name()), &dequantise).unwrap();
        let output = download(output, COUNT * element.size());
        for (index, piece) in input.chunks(256 * element.size()).enumerate() {
            let (packet, stats) = packet_of(element, piece, format, TAG);
            assert_eq!(written[index * stride..][..packet.len()], packet, "{element:?} {format:?}");
            expected += stats;
            let mut decoded = vec![0; piece.len()];
            let count = piece.len() / element.size();
            // All have the tag of the first: the others are foreign.
            expected += codec::dequantise(element, &packet, count, format, TAG.of_rank(index), &mut decoded);
            assert_eq!(output[index * 256 * element.size()..][..piece.len()], decoded);
        }
        let found = counters(stats);
        assert_eq!(found[..2], [expected.saturated, expected.non_finite_blocks]);
        assert_eq!(f64::from_bits(found[3]), expected.signal);
        assert_eq!((found[4], expected.foreign), (2, 2));
    }
}

#[test]
fn the_packets_of_all_ranks_are_added_up_in_both_ways() {
    const COUNT: usize = 300;
    for (element, format) in every_case() {
        let packets: Vec<Vec<u8>> = (0..3)
            .map(|rank| packet_of(element, &elements(element, COUNT, rank), format, TAG.of_rank(rank)).0)
            .collect();
        let (at, slices) = (upload(&packets.concat()), packets.iter().map(Vec::as_slice).collect::<Vec<_>>());
        for average in [false, true] {
            let ranks = [
                Long(at),
                Long(packet_bytes(COUNT) as u64),
                Short(3),
                Long(COUNT as u64),
                Short(u32::from(average)),
                Long(TAG.call),
                Long(TAG.part),
            ];
            let output = upload(&vec![0; COUNT * element.size()]);
            let sum = [&ranks[..], &[Long(output), Long(0)]].concat();
            run(&format!("airamp_dequantise_sum_{}_{}", element.name(), format.name()), &sum).unwrap();
            let mut expected = vec![0; COUNT * element.size()];
            codec::dequantise_sum(element, &slices, COUNT, format, average, TAG, &mut expected);
            assert_eq!(download(output, expected.len()), expected, "{element:?} {format:?} {average}");

            let packet = upload(&vec![0; packet_bytes(COUNT)]);
            // Without counters.
            let reduce =
                [&ranks[..], &[Long(OUT_TAG.call), Long(OUT_TAG.part), Long(packet), Long(0)]].concat();
            run(&format!("airamp_reduce_{}_{}", element.name(), format.name()), &reduce).unwrap();
            let mut expected = vec![0; packet_bytes(COUNT)];
            codec::reduce(element, &slices, COUNT, format, average, TAG, OUT_TAG, &mut expected);
            assert_eq!(download(packet, expected.len()), expected, "{element:?} {format:?} {average}");
        }
    }
}

#[test]
fn nothing_to_do_is_no_mistake() {
    let nothing = [Long(0); 8];
    assert_eq!(run("airamp_quantise_f32_e4m3", &nothing), Ok(()));
    let ranks = [Long(0), Long(0), Short(0), Long(0), Short(0)];
    let nothing = [&ranks[..], &[Long(0); 6]].concat();
    assert_eq!(run("airamp_reduce_bf16_auto", &nothing), Ok(()));
}

/// A launch of the f32 quantise kernel that works, with one argument to be replaced.
fn quantise_with(index: usize, change: impl FnOnce(u64) -> Argument) -> Vec<Argument> {
    let (input, packets) = (upload(&[0; 1024]), upload(&[0; 576]));
    let (stride, blocks) = (Long(160), Long(1));
    let tag = [Long(TAG.call), Long(TAG.part)];
    let mut arguments = vec![Long(input), Long(256), Long(packets), stride, blocks];
    arguments.extend([tag[0], tag[1], Long(0)]);
    let old = match arguments[index] {
        Long(value) => value,
        Short(value) => u64::from(value),
    };
    arguments[index] = change(old);
    arguments
}

#[track_caller]
fn assert_fault(test: &str, part: &str, launch: impl FnOnce() -> Result<(), CudaError>) {
    let ended = in_own_process(test, &[], || assert_eq!(launch(), Err(CudaError::ILLEGAL_ADDRESS)));
    ended.expect_success();
    assert!(ended.errors.contains(part), "{part:?} is not in {}", ended.errors);
}

#[test]
fn the_unchanged_launch_works() {
    assert_eq!(run("airamp_quantise_f32_e4m3", &quantise_with(0, Long)), Ok(()));
}

#[test]
fn a_count_beyond_the_buffer_is_a_fault() {
    assert_fault("a_count_beyond_the_buffer_is_a_fault", "runs past the end", || {
        run("airamp_quantise_f32_e4m3", &quantise_with(1, |count| Long(count + 1)))
    });
}

#[test]
fn an_absurd_count_is_a_fault() {
    assert_fault("an_absurd_count_is_a_fault", "runs past the end", || {
        run("airamp_quantise_f32_e4m3", &quantise_with(1, |_| Long(u64::MAX)))
    });
}

#[test]
fn packets_beyond_their_memory_are_a_fault() {
    assert_fault("packets_beyond_their_memory_are_a_fault", "runs past the end", || {
        run("airamp_quantise_f32_e4m3", &quantise_with(3, |_| Long(480)))
    });
}

#[test]
fn a_misaligned_packet_is_a_fault() {
    assert_fault("a_misaligned_packet_is_a_fault", "not a multiple of 16", || {
        run("airamp_quantise_f32_e4m3", &quantise_with(2, |at| Long(at + 8)))
    });
}

#[test]
fn a_misaligned_element_is_a_fault() {
    assert_fault("a_misaligned_element_is_a_fault", "not a multiple of 4", || {
        run("airamp_quantise_f32_e4m3", &quantise_with(0, |at| Long(at + 2)))
    });
}

#[test]
fn packets_over_their_own_input_are_a_fault() {
    assert_fault("packets_over_their_own_input_are_a_fault", "reads and writes the same memory", || {
        let mut arguments = quantise_with(0, Long);
        arguments[2] = arguments[0];
        run("airamp_quantise_f32_e4m3", &arguments)
    });
}

#[test]
fn another_size_of_thread_block_is_a_fault() {
    assert_fault("another_size_of_thread_block_is_a_fault", "threads per block", || {
        let stream = non_blocking();
        let arguments =
            [8, 8, 4, 8, 4, 8, 8, 8, 8, 8, 8].map(|len: usize| vec![0; len].into_boxed_slice()).to_vec();
        let launch = Launch { grid: [1; 3], block: [128, 1, 1], shared_bytes: 0, arguments };
        module::launch(kernel("airamp_reduce_f16_int8"), stream, launch)?;
        stream::synchronize(stream)
    });
}

#[test]
fn launches_may_share_counters_and_nothing_else() {
    let ended = in_own_process("launches_may_share_counters_and_nothing_else", &[], || {
        let (stats, streams) = (upload(&[0; STATS]), [non_blocking(), non_blocking()]);
        let quantise = kernel("airamp_quantise_f32_e4m3");
        for stream in streams {
            launch_on(stream, quantise, &quantise_with(7, |_| Long(stats))).unwrap();
        }
        for stream in streams {
            assert_eq!(stream::synchronize(stream), Ok(()));
        }
        launch_on(streams[0], quantise, &quantise_with(7, |_| Long(stats))).unwrap();
        copy::fill(streams[1], stats, &[0], STATS).unwrap();
        assert_eq!(stream::synchronize(streams[1]), Err(CudaError::LAUNCH_FAILED));
    });
    ended.expect_success();
    assert!(ended.errors.contains("wrong stream order"), "{}", ended.errors);
}

#[test]
fn counters_that_are_cleared_for_one_launch_are_not_so_for_another() {
    let test = "counters_that_are_cleared_for_one_launch_are_not_so_for_another";
    let ended = in_own_process(test, &[], || {
        let (stats, streams) = (upload(&[0; STATS]), [non_blocking(), non_blocking()]);
        let quantise = kernel("airamp_quantise_f32_e4m3");
        copy::fill(streams[0], stats, &[0], STATS).unwrap();
        launch_on(streams[0], quantise, &quantise_with(7, |_| Long(stats))).unwrap();
        launch_on(streams[1], quantise, &quantise_with(7, |_| Long(stats))).unwrap();
        assert_eq!(stream::synchronize(streams[1]), Err(CudaError::LAUNCH_FAILED));
    });
    ended.expect_success();
    assert!(ended.errors.contains("wrong stream order"), "{}", ended.errors);
}

#[test]
fn packets_that_are_read_before_they_are_written_are_a_race() {
    let test = "packets_that_are_read_before_they_are_written_are_a_race";
    let ended = in_own_process(test, &[], || {
        let (arguments, output) = (quantise_with(0, Long), upload(&[0; 1024]));
        let (one, other) = (non_blocking(), non_blocking());
        let (quantise, dequantise) =
            (kernel("airamp_quantise_f32_e4m3"), kernel("airamp_dequantise_f32_e4m3"));
        launch_on(one, quantise, &arguments).unwrap();
        // The second packet only.
        let Long(packets) = arguments[2] else { unreachable!("an address") };
        let read = [Long(packets + 160), Long(160), Long(1), Long(128)];
        let read = [&read[..], &[Long(TAG.call), Long(TAG.part), Long(output), Long(0)]].concat();
        launch_on(other, dequantise, &read).unwrap();
        assert_eq!(stream::synchronize(other), Err(CudaError::LAUNCH_FAILED));
    });
    ended.expect_success();
    assert!(ended.errors.contains("wrong stream order"), "{}", ended.errors);
}

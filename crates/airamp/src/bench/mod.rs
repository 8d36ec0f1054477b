//! `airamp bench`: the compressed AllReduce beside the vendor's own, or, with `--preload`, any
//! collectives without and with the library. The ranks measure; this starts them, compares and shows.

mod arguments;
mod chart;
mod cluster;
mod compression;
mod link;
mod loopback;
mod preload;
mod progress;
mod size;

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;

use self::cluster::Cluster;
pub(crate) use self::cluster::{AS_A_MACHINE_OF_ITS_OWN, SOCKETS_ON_LOOPBACK};
use self::link::Link;
use self::size::Sizes;
use crate::cli::CommandError;
use crate::whole::whole;

/// A rank failed, or results that should be the same bits are not.
const FAILED: u8 = 1;

const COLLECTIVES: [&str; 8] =
    ["all_reduce", "reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all", "gather", "scatter"];
/// Of these each rank needs an element; the others take no part per rank.
const IN_PARTS: [&str; 5] = ["reduce_scatter", "all_gather", "all_to_all", "gather", "scatter"];
/// With the bytes of an element.
const DATATYPES: [(&str, usize); 12] = [
    ("int8", 1),
    ("uint8", 1),
    ("int32", 4),
    ("uint32", 4),
    ("int64", 8),
    ("uint64", 8),
    ("float16", 2),
    ("float32", 4),
    ("float64", 8),
    ("bfloat16", 2),
    ("float8e4m3", 1),
    ("float8e5m2", 1),
];
const COMPRESSIBLE: [&str; 3] = ["float16", "bfloat16", "float32"];
const MOST_RANKS: u64 = 64;
const FORMATS: [&str; 4] = ["auto", "e4m3", "e5m2", "int8"];
/// The emulated network, unless another is asked for: one that two busy cores can fill.
const EMULATED_LINK: Link = Link::Rate(1.0);

const AFTER_HELP: &str = "\
Each line is one way to do the AllReduce: the vendor's own; the vendor's on a tensor cast to fp16 or fp8 before \
the clock starts; ours, by wire format. A time is, per iteration, that of the rank that waited least, and of the \
iterations the median; speedup is the vendor's time over it. Errors are against the exact sum in fp64: vNMSE is \
squared error over squared signal, worst the largest error over the root mean square of the exact result. An emulated \
link passes what a switch would buffer at once (256 KiB, or 2 ms of its rate): smaller messages do not feel the rate.

Exit code: 0 all ranks had the same bits, 1 they had not or a rank failed, 2 wrong arguments, 125 airamp failed.

Examples:
  airamp bench                                             two emulated ranks, under a minute
  airamp bench --ranks 2,4 --link-rate 500mbit --sizes 64KiB..16MiB --chart speedup.svg
  airamp bench --data spikes --formats auto,e4m3,int8      what do outliers cost?
  airamp bench --gpu --ranks 8 --datatypes bfloat16        the GPUs of this machine, one rank each
  airamp bench --gpu --ranks 2,4,8 --link-rate 10gbit      they share GPUs, over shaped loopback
  airamp bench --preload --collectives all_gather          what does preloading cost?
  AIRAMP_KERNEL_DIR=my-kernels airamp bench                kernels of `airamp kernels build`";

/// Measure the compressed AllReduce beside the vendor's own
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// How many rank processes, 2 to 64; several numbers are measured one after the other
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "2")]
    #[arg(value_parser = whole::<u32>(1..=MOST_RANKS), allow_negative_numbers = true)]
    ranks: Vec<u32>,

    /// Bytes of a tensor, as 512KiB or 64MiB, or a range that doubles, as 1MiB..256MiB
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1MiB,4MiB,16MiB")]
    #[arg(allow_negative_numbers = true)]
    sizes: Vec<Sizes>,

    /// The types of the elements; with --preload also int8, uint8, int32, uint32, int64, uint64, float64,
    /// float8e4m3 and float8e5m2
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "float32,bfloat16")]
    #[arg(value_parser = PossibleValuesParser::new(DATATYPES.map(|(name, _)| arguments::datatype(name))))]
    datatypes: Vec<String>,

    /// The wire formats of the compressed AllReduce
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "auto", value_parser = FORMATS)]
    #[arg(conflicts_with = "preload")]
    formats: Vec<String>,

    /// What the ranks send over: a rate, as 10gbit or 500mbit, or loopback, as fast as it is. Several are
    /// measured one after the other. On a GPU a rate shapes this machine's loopback (root and tc are needed)
    #[arg(long, alias = "link-gbps", value_name = "LIST", value_delimiter = ',')]
    #[arg(allow_negative_numbers = true)]
    link_rate: Vec<Link>,

    /// What the tensors hold: N(0,1); N(0,1) with 1% of the numbers times 100; gradients, sign * 1e-4 *
    /// exp(N(0,1)); zeros
    #[arg(long, value_name = "KIND", default_value = "normal", value_parser = ["normal", "spikes", "lognormal", "zeros"])]
    #[arg(conflicts_with = "preload")]
    data: String,

    /// The average over the ranks instead of the sum
    #[arg(long, conflicts_with = "preload")]
    average: bool,

    /// Cut calls in every way that the tuner may choose, a line for each, and not in the usual one alone
    #[arg(long, conflicts_with = "preload")]
    all_shapes: bool,

    /// Timed calls of each way
    #[arg(long, value_name = "N", default_value = "5", value_parser = whole::<u32>(1..=1000))]
    #[arg(allow_negative_numbers = true)]
    iterations: u32,

    /// Calls of each way before the timed ones
    #[arg(long, value_name = "N", default_value = "2", value_parser = whole::<u32>(0..=1000))]
    #[arg(allow_negative_numbers = true)]
    warmup: u32,

    /// Device memory that the compressed AllReduce may use on each rank, as 16MiB
    #[arg(long, value_name = "SIZE", default_value = "16MiB", conflicts_with = "preload", value_parser = airamp_plan::size)]
    arena_bytes: usize,

    /// One JSON object instead of the table
    #[arg(long)]
    json: bool,

    /// Draw the speedup over the size into this file, .svg or .html
    #[arg(long, value_name = "FILE", conflicts_with = "preload", value_parser = chart::place)]
    chart: Option<PathBuf>,

    /// Instead, measure collectives without and with the library in LD_PRELOAD
    #[arg(long)]
    preload: bool,

    /// With --preload: what is measured
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = COLLECTIVES, requires = "preload")]
    #[arg(default_value = "all_reduce,reduce_scatter,all_gather")]
    collectives: Vec<String>,

    /// The emulated GPU and NCCL (the default)
    #[arg(long, conflicts_with = "gpu")]
    emulate: bool,

    /// The GPUs and the NCCL of this machine
    #[arg(long)]
    gpu: bool,

    /// HIP and RCCL instead of CUDA and NCCL
    #[arg(long)]
    hip: bool,
}

pub(crate) fn execute(args: &Args) -> Result<u8, CommandError> {
    let args = &args.without_repeats();
    args.check()?;
    let cluster = Cluster::find(args)?;
    if args.preload { preload::execute(args, &cluster) } else { compression::execute(args, &cluster) }
}

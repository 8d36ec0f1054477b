//! The tensors of a run: every datatype in every size, none of them twice.

use airamp_codec::Element;
use airamp_vendor_abi::nccl::DataType;

use super::Tensor;
use crate::error::RankError;

/// A tensor as the command line named it.
pub(super) struct Named<'a> {
    pub(super) tensor: Tensor,
    pub(super) datatype: &'a str,
    pub(super) bytes: usize,
}

pub(super) fn tensors<'a>(
    sizes: &[usize],
    datatypes: &'a [String],
    average: bool,
) -> Result<Vec<Named<'a>>, RankError> {
    let mut all = Vec::new();
    for name in datatypes {
        let (datatype, element) = match name.as_str() {
            "float16" => (DataType::FLOAT16, Element::F16),
            "bfloat16" => (DataType::BFLOAT16, Element::Bf16),
            "float32" => (DataType::FLOAT32, Element::F32),
            _ => return Err(RankError::Arguments(format!("{name} cannot be compressed"))),
        };
        let size = datatype.size().unwrap_or(1);
        for bytes in sizes {
            let count = bytes / size;
            if count == 0 {
                return Err(RankError::Arguments(format!("{bytes} bytes hold no {name}")));
            }
            let tensor = Tensor { datatype, element, count, average };
            let named = Named { tensor, datatype: name, bytes: count * size };
            if !all
                .iter()
                .any(|held: &Named<'_>| (held.datatype, held.bytes) == (named.datatype, named.bytes))
            {
                all.push(named);
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_hold_the_same_elements_are_one_tensor() {
        let names = ["bfloat16".to_owned(), "float32".to_owned(), "bfloat16".to_owned()];
        let all = tensors(&[64, 66, 64], &names, false).unwrap();
        let held: Vec<_> = all.iter().map(|tensor| (tensor.datatype, tensor.bytes)).collect();
        assert_eq!(held, [("bfloat16", 64), ("bfloat16", 66), ("float32", 64)]);
    }

    #[test]
    fn a_tensor_holds_whole_elements_and_at_least_one() {
        let names = ["bfloat16".to_owned(), "float32".to_owned()];
        let bytes: Vec<usize> =
            tensors(&[7, 64], &names, false).unwrap().iter().map(|tensor| tensor.bytes).collect();
        assert_eq!(bytes, [6, 64, 4, 64]);
        assert!(matches!(tensors(&[3], &names, false), Err(RankError::Arguments(_))));
        assert!(matches!(tensors(&[8], &["int8".to_owned()], false), Err(RankError::Arguments(_))));
    }
}

//! NFSv2 and the programs beside NFS: every procedure decoded from any bytes, cut and with holes;
//! what was whole is encoded and decoded again; and what its summary says is the same however it is
//! cut.

use lineside_frame::{Cursor, Piece};
use lineside_nfs::ancillary::nfsacl::{v2 as nfsacl2, v3 as nfsacl3};
use lineside_nfs::ancillary::nlm::{v1 as nlm1, v4 as nlm4};
use lineside_nfs::ancillary::rquota::{v1 as rquota1, v2 as rquota2};
use lineside_nfs::ancillary::{Procedure, Summary, klm, mount as mount1, nsm, portmap, rpcbind};
use lineside_nfs::v2;

use super::Bytes;
use super::nfs::{Input, bounded, check, check_procedure};

/// A message behind its program and procedure; two bytes of choices end the input.
pub(crate) fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let (cut, hole) = (usize::from(bytes.last()), usize::from(bytes.last()));
    let (program, number) = (bytes.u8(), u32::from(bytes.u8()));
    let input = Input {
        body: bytes.0,
        cut,
        hole,
    };
    macro_rules! check_programs {
        ($($index:literal $module:ident ($program:literal, $version:literal),)*) => {
            match program {
                $($index => {
                    check_procedure!($module::Call, number, input);
                    check_procedure!($module::Reply, number, input);
                    if let Some(procedure) = Procedure::find($program, $version, number) {
                        check_summary(procedure, input);
                    }
                })*
                _ => {}
            }
        };
    }
    check_programs! {
        0 v2 (100_003, 2),
        1 mount1 (100_005, 2),
        2 portmap (100_000, 2),
        3 rpcbind (100_000, 4),
        4 nlm1 (100_021, 3),
        5 nlm4 (100_021, 4),
        6 klm (100_020, 1),
        7 nsm (100_024, 1),
        8 nfsacl2 (100_227, 2),
        9 nfsacl3 (100_227, 3),
        10 rquota1 (100_011, 1),
        11 rquota2 (100_011, 2),
    }
}

fn check_summary(procedure: Procedure, input: Input<'_>) {
    let (first, second) = input.body.split_at(input.cut.min(input.body.len()));
    let (whole, in_two) = (
        [Piece::bytes(input.body)],
        [Piece::bytes(first), Piece::bytes(second)],
    );
    for read in [Procedure::call, Procedure::reply] {
        let (mut one, mut two) = (Cursor::new(&whole), Cursor::new(&in_two));
        let (mut told, mut again) = (Summary::default(), Summary::default());
        read(procedure, &mut one, &mut told);
        read(procedure, &mut two, &mut again);
        assert_eq!(told, again);
        assert_eq!(one.fault(), two.fault());
    }
}

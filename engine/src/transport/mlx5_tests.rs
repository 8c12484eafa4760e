use std::fs;
use std::process::Command;

use proptest::prelude::*;

use super::*;

const READ: WorkRequest = WorkRequest {
    opcode: Opcode::RdmaRead,
    index: 0xA1B2,
    queue_pair: 0x12_3456,
    signaled: true,
    fenced: false,
    remote_address: 0x1122_3344_5566_7788,
    remote_key: 0xDEAD_BEEF,
    local_address: 0x99AA_BBCC_DDEE_FF00,
    local_key: 0x0102_0304,
    length: 8192,
};

/// The bytes of `READ`, written down by hand from the offsets of the format.
#[rustfmt::skip]
const READ_BYTES: [u8; 48] = [
    0x00, 0xA1, 0xB2, 0x10,  0x12, 0x34, 0x56, 0x03,  0x00, 0x00, 0x00, 0x08,  0x00, 0x00, 0x00, 0x00,
    0x11, 0x22, 0x33, 0x44,  0x55, 0x66, 0x77, 0x88,  0xDE, 0xAD, 0xBE, 0xEF,  0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x20, 0x00,  0x01, 0x02, 0x03, 0x04,  0x99, 0xAA, 0xBB, 0xCC,  0xDD, 0xEE, 0xFF, 0x00,
];

#[test]
fn read_request_has_every_field_at_its_documented_offset() {
    let entry = READ.encode();
    assert_eq!(entry[..48], READ_BYTES);
    assert_eq!(entry[48..], [0; 16]);
    assert_eq!(WorkRequest::decode(&entry), Ok(READ));
}

#[test]
fn write_request_differs_by_its_opcode_and_flags_by_their_bits() {
    let write = WorkRequest { opcode: Opcode::RdmaWrite, signaled: false, fenced: true, ..READ };
    let mut expected = READ_BYTES;
    (expected[3], expected[11]) = (0x08, 0x80);
    assert_eq!(write.encode()[..48], expected);
    assert_eq!(WorkRequest::decode(&write.encode()), Ok(write));
}

#[test]
fn entry_of_another_kind_is_refused_by_what_is_wrong_with_it() {
    let with = |at: usize, byte: u8| {
        let mut entry = READ.encode();
        entry[at] = byte;
        WorkRequest::decode(&entry)
    };
    assert_eq!(with(3, 0x0A), Err(MalformedRequest::Opcode { code: 0x0A })); // SEND
    assert_eq!(with(7, 0x02), Err(MalformedRequest::Segments { segments: 2 }));
    for at in [0, 9, 10, 28, 31] {
        assert_eq!(with(at, 1), Err(MalformedRequest::Reserved), "byte {at}");
    }
    assert_eq!(with(11, 0x0C), Err(MalformedRequest::Reserved));
    assert!(with(50, 7).is_ok(), "behind the segments");
}

#[test]
fn completion_has_every_field_at_its_documented_offset() {
    let done = Completion { status: Status::Done, index: 0xA1B2, queue_pair: 0x12_3456, length: 8192 };
    let mut expected = [0; 64];
    expected[44..48].copy_from_slice(&[0x00, 0x00, 0x20, 0x00]);
    expected[56..62].copy_from_slice(&[0x10, 0x12, 0x34, 0x56, 0xA1, 0xB2]);
    assert_eq!(done.encode(Opcode::RdmaRead, 0, 64), expected);
    expected[63] = 0x01; // the second time round
    assert_eq!(done.encode(Opcode::RdmaRead, 64, 64), expected);

    let failed = Completion {
        status: Status::Failed { syndrome: Syndrome::REMOTE_ACCESS, vendor: 0x88 },
        length: 0,
        ..done
    };
    let mut expected = [0; 64];
    expected[54..62].copy_from_slice(&[0x88, 0x13, 0x08, 0x12, 0x34, 0x56, 0xA1, 0xB2]);
    expected[63] = 0xD1;
    assert_eq!(failed.encode(Opcode::RdmaWrite, 3 * 16 + 15, 16), expected);
    assert_eq!(Completion::decode(&expected, 3 * 16 + 15, 16), Some(failed));
}

#[test]
fn completion_of_the_round_before_and_an_unwritten_entry_are_not_taken() {
    let done = Completion { status: Status::Done, index: 7, queue_pair: 5, length: 4096 };
    assert_eq!(Completion::decode(&UNWRITTEN, 0, 4), None);
    assert_eq!(
        Completion::decode(&UNWRITTEN, 4, 4),
        None,
        "though its owner bit is that of the second round"
    );
    let entry = done.encode(Opcode::RdmaRead, 2, 4);
    assert_eq!(Completion::decode(&entry, 2, 4), Some(done));
    assert_eq!(Completion::decode(&entry, 6, 4), None, "one round later it is old");
    assert_eq!(Completion::decode(&entry, 10, 4), Some(done), "and two rounds later not to be told apart");
}

#[test]
fn doorbells_count_16_bits_and_completions_24() {
    assert_eq!(send_doorbell_record(0x0001_2345), [0x00, 0x00, 0x23, 0x45]);
    assert_eq!(doorbell(0x0001_2345, 0xAB12_3456), [0x00, 0x23, 0x45, 0x00, 0x12, 0x34, 0x56, 0x00]);
    assert_eq!(completion_record(0x0712_3456), [0x00, 0x12, 0x34, 0x56]);
}

#[test]
fn syndrome_says_what_it_means_and_its_number() {
    assert_eq!(Syndrome::REMOTE_ACCESS.to_string(), "remote access error (syndrome 0x13)");
    assert_eq!(Syndrome(0x99).to_string(), "unknown error (syndrome 0x99)");
}

proptest! {
    #[test]
    fn every_request_comes_back_from_its_bytes(
        read: bool, index: u16, queue_pair in 0_u32..1 << 24, signaled: bool, fenced: bool,
        remote_address: u64, remote_key: u32, local_address: u64, local_key: u32, length: u32,
    ) {
        let opcode = if read { Opcode::RdmaRead } else { Opcode::RdmaWrite };
        let request = WorkRequest {
            opcode, index, queue_pair, signaled, fenced, remote_address, remote_key, local_address, local_key, length,
        };
        prop_assert_eq!(WorkRequest::decode(&request.encode()), Ok(request));
    }

    #[test]
    fn every_completion_comes_back_from_its_bytes(
        failed: Option<(u8, u8)>, index: u16, queue_pair in 0_u32..1 << 24, length: u32, at: u64, shift in 0_u32..16,
    ) {
        let (status, length) = match failed {
            Some((syndrome, vendor)) => (Status::Failed { syndrome: Syndrome(syndrome), vendor }, 0),
            None => (Status::Done, length),
        };
        let completion = Completion { status, index, queue_pair, length };
        let entry = completion.encode(Opcode::RdmaRead, at, 1 << shift);
        prop_assert_eq!(Completion::decode(&entry, at, 1 << shift), Some(completion));
    }
}

/// Builds the requests and completions of these tests with the inline functions and structs of libmlx5's own header.
const BY_THE_HEADER: &str = r#"
#include <endian.h>
#include <infiniband/mlx5dv.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static void print(const char *name, const void *bytes, size_t n) {
  printf("%s ", name);
  for (size_t i = 0; i < n; i++) printf("%02x", ((const unsigned char *)bytes)[i]);
  printf("\n");
}

static void request(const char *name, unsigned char opcode, unsigned char flags) {
  unsigned char wqe[64] = {0};
  struct mlx5_wqe_ctrl_seg ctrl = {0};
  mlx5dv_set_ctrl_seg(&ctrl, 0xa1b2, opcode, 0, 0x123456, flags, 3, 0, 0);
  struct mlx5_wqe_raddr_seg raddr = {0};
  raddr.raddr = htobe64(0x1122334455667788);
  raddr.rkey = htobe32(0xdeadbeef);
  struct mlx5_wqe_data_seg data = {0};
  mlx5dv_set_data_seg(&data, 8192, 0x01020304, 0x99aabbccddeeff00);
  memcpy(wqe, &ctrl, sizeof ctrl);
  memcpy(wqe + sizeof ctrl, &raddr, sizeof raddr);
  memcpy(wqe + sizeof ctrl + sizeof raddr, &data, sizeof data);
  print(name, wqe, sizeof wqe);
}

int main(void) {
  request("read", MLX5_OPCODE_RDMA_READ, MLX5_WQE_CTRL_CQ_UPDATE);
  request("write", MLX5_OPCODE_RDMA_WRITE, MLX5_WQE_CTRL_FENCE);
  struct mlx5_cqe64 done = {0};
  done.byte_cnt = htobe32(8192);
  done.sop_drop_qpn = htobe32(MLX5_OPCODE_RDMA_READ << 24 | 0x123456);
  done.wqe_counter = htobe16(0xa1b2);
  done.op_own = MLX5_CQE_REQ << 4 | 1;
  print("done", &done, sizeof done);
  struct mlx5_err_cqe failed = {0};
  failed.vendor_err_synd = 0x88;
  failed.syndrome = MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR;
  failed.s_wqe_opcode_qpn = htobe32(MLX5_OPCODE_RDMA_WRITE << 24 | 0x123456);
  failed.wqe_counter = htobe16(0xa1b2);
  failed.op_own = MLX5_CQE_REQ_ERR << 4 | 1;
  print("failed", &failed, sizeof failed);
  unsigned char syndromes[] = {
    MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR,
    MLX5_CQE_SYNDROME_WR_FLUSH_ERR, MLX5_CQE_SYNDROME_MW_BIND_ERR, MLX5_CQE_SYNDROME_BAD_RESP_ERR,
    MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR, MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR,
    MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, MLX5_CQE_SYNDROME_REMOTE_OP_ERR,
    MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR, MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR,
    MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR};
  print("syndromes", syndromes, sizeof syndromes);
  unsigned char unwritten = MLX5_CQE_INVALID << 4 | 0xf;
  print("unwritten", &unwritten, 1);
  printf("doorbell_word %d\n", MLX5_SND_DBR);
  return 0;
}
"#;

#[test]
fn requests_and_completions_are_those_of_the_header_of_libmlx5() {
    let name = "requests_and_completions_are_those_of_the_header_of_libmlx5";
    if !std::path::Path::new("/usr/include/infiniband/mlx5dv.h").exists() {
        println!("skipped: {name}: infiniband/mlx5dv.h is not installed (libibverbs-dev has it)");
        return;
    }
    let folder = std::env::temp_dir().join(format!("gpuvm-mlx5-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let (source, program) = (folder.join("header.c"), folder.join("header"));
    fs::write(&source, BY_THE_HEADER).expect("written");
    let compiled = Command::new("cc").arg("-w").arg(&source).arg("-o").arg(&program).output();
    let compiled = compiled.expect("a C compiler, which building the CPU device takes as well");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let output = Command::new(&program).output().expect("it starts");
    fs::remove_dir_all(&folder).expect("removed");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("hexadecimal digits");

    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let write = WorkRequest { opcode: Opcode::RdmaWrite, signaled: false, fenced: true, ..READ };
    let done =
        Completion { status: Status::Done, index: READ.index, queue_pair: READ.queue_pair, length: 8192 };
    let status = Status::Failed { syndrome: Syndrome::REMOTE_ACCESS, vendor: 0x88 };
    let failed = Completion { status, length: 0, ..done };
    let syndromes: Vec<u8> = Syndrome::ALL.iter().map(|syndrome| syndrome.0).collect();
    let expected = [
        format!("read {}", hex(&READ.encode())),
        format!("write {}", hex(&write.encode())),
        format!("done {}", hex(&done.encode(Opcode::RdmaRead, 1, 1))),
        format!("failed {}", hex(&failed.encode(Opcode::RdmaWrite, 1, 1))),
        format!("syndromes {}", hex(&syndromes)),
        format!("unwritten {}", hex(&UNWRITTEN[63..])),
        format!("doorbell_word {SEND_DOORBELL_WORD}"),
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
}

//! The XDP program: which frames come to our sockets, and which stay with the kernel.
//!
//! It is assembled here, with addresses and ports as constants, so that no compiler and no file is
//! needed. Registers: r6 the context, r2 the cursor in the frame, r3 the frame's end, r8 whether
//! the packet is a first fragment, r5 the loaded value. The program never writes to a frame.
//!
//! Invariants: each load is behind a comparison with the frame's end, or the verifier refuses the
//! program; a queue without a socket passes its frames to the kernel.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Ports of one program at most.
pub const PORTS_MAX: usize = 64;

/// The frames that a program brings to the sockets of its interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rule {
    /// Every frame. The kernel gets nothing from the interface: no ARP, no ICMP.
    All,
    /// TCP to these addresses and ports, without VLAN tags and IPv6 extension headers. Everything
    /// else stays with the kernel. The first fragment of such a packet over IPv4 is dropped,
    /// because the kernel would answer the whole packet with a reset.
    Shared {
        /// The IPv4 address, if there is one.
        ipv4: Option<Ipv4Addr>,
        /// The IPv6 address, if there is one.
        ipv6: Option<Ipv6Addr>,
        /// 1 to [`PORTS_MAX`] ports.
        ports: Vec<u16>,
    },
}

impl Rule {
    /// Whether the rule can become a program.
    pub(super) fn is_valid(&self) -> bool {
        match self {
            Rule::All => true,
            Rule::Shared { ipv4, ipv6, ports } => {
                (ipv4.is_some() || ipv6.is_some()) && (1..=PORTS_MAX).contains(&ports.len())
            }
        }
    }

    /// The program for a map of sockets, by the descriptor's number.
    pub(super) fn program(&self, map: i32) -> Vec<Instruction> {
        let mut program = Program::default();
        program.push(MOVE, 6, 1, 0, 0);
        program.push(MOVE_VALUE, 8, 0, 0, 0);
        match self {
            Rule::All => program.redirect(map),
            Rule::Shared { ipv4, ipv6, ports } => {
                program.link_header();
                match ipv6 {
                    Some(address) => program.ipv6(*address),
                    None => program.jump_always(Label::Pass),
                }
                program.label(Label::Ipv4);
                match ipv4 {
                    Some(address) => program.ipv4(*address),
                    None => program.jump_always(Label::Pass),
                }
                program.label(Label::Port);
                for port in ports {
                    program.jump_if(EQUAL, 5, i32::from(port.to_be()), Label::Socket);
                }
                program.label(Label::Pass);
                program.end(PASS);
                program.label(Label::Socket);
                program.jump_if(NOT_EQUAL, 8, 0, Label::Drop);
                program.redirect(map);
                program.label(Label::Drop);
                program.end(DROP);
            }
        }
        program.finish()
    }
}

/// One instruction, as the kernel reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(super) struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    value: i32,
}

/// `XDP_DROP` and `XDP_PASS`.
const DROP: i32 = 1;
const PASS: i32 = 2;

/// `BPF_FUNC_redirect_map`.
const REDIRECT_MAP: i32 = 51;
/// `BPF_PSEUDO_MAP_FD`: the loaded value is a descriptor, and becomes the map.
const IS_MAP: u8 = 1;

// Instruction codes: class, size or operation, and the source of the operand.
const MOVE: u8 = 0xbf;
const MOVE_VALUE: u8 = 0xb7;
const ADD: u8 = 0x0f;
const ADD_VALUE: u8 = 0x07;
const AND_VALUE: u8 = 0x57;
const SHIFT_LEFT_VALUE: u8 = 0x67;
const LOAD_8: u8 = 0x71;
const LOAD_16: u8 = 0x69;
const LOAD_32: u8 = 0x61;
const LOAD_64: u8 = 0x79;
const LOAD_VALUE_64: u8 = 0x18;
const JUMP: u8 = 0x05;
const EQUAL: u8 = 0x15;
const NOT_EQUAL: u8 = 0x55;
const NOT_EQUAL_REGISTER: u8 = 0x5d;
/// The lower 32 bits of the register differ from the value.
const NOT_EQUAL_32: u8 = 0x56;
const LESS: u8 = 0xa5;
const GREATER_REGISTER: u8 = 0x2d;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// Members of the context `struct xdp_md`.
const CONTEXT_DATA: i16 = 0;
const CONTEXT_END: i16 = 4;
const CONTEXT_QUEUE: i16 = 16;

// Places in a frame, in bytes from its beginning.
const ETHER_TYPE: i16 = 12;
const IP: i16 = 14;
const IPV4_FRAGMENT: i16 = IP + 6;
const IPV4_PROTOCOL: i16 = IP + 9;
const IPV4_TARGET: i16 = IP + 16;
const IPV4_BYTES_MIN: i32 = 20;
const IPV6_NEXT: i16 = IP + 6;
const IPV6_TARGET: i16 = IP + 24;
const IPV6_BYTES: i16 = 40;
const TCP_PORT: i16 = 2;
const TCP_BYTES_MIN: i32 = 20;
const TCP: i32 = 6;

/// Targets of jumps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Label {
    Ipv4,
    /// r5 has the port.
    Port,
    Pass,
    Drop,
    /// The frame is for a socket.
    Socket,
}

/// A program in the making. All jumps go forward.
#[derive(Default)]
struct Program {
    instructions: Vec<Instruction>,
    /// Jumps without an offset yet: place and target.
    jumps: Vec<(usize, Label)>,
}

impl Program {
    fn push(&mut self, code: u8, target: u8, source: u8, offset: i16, value: i32) {
        // The kernel declares two halves of a byte, which a compiler of C orders like bytes.
        let registers = if cfg!(target_endian = "little") {
            source << 4 | target
        } else {
            target << 4 | source
        };
        self.instructions.push(Instruction { code, registers, offset, value });
    }

    /// Jumps if a register compares so with a value.
    fn jump_if(&mut self, code: u8, register: u8, value: i32, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.push(code, register, 0, 0, value);
    }

    /// Jumps if two registers compare so.
    fn jump_if_registers(&mut self, code: u8, register: u8, other: u8, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.push(code, register, other, 0, 0);
    }

    fn jump_always(&mut self, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.push(JUMP, 0, 0, 0, 0);
    }

    /// Makes the next instruction the target of all jumps to `label` so far.
    fn label(&mut self, label: Label) {
        let here = self.instructions.len();
        let instructions = &mut self.instructions;
        self.jumps.retain(|&(place, target)| {
            if target == label {
                instructions[place].offset = (here - place - 1) as i16;
            }
            target != label
        });
    }

    fn load_value_64(&mut self, register: u8, source: u8, value: u64) {
        self.push(LOAD_VALUE_64, register, source, 0, value as u32 as i32);
        self.push(0, 0, 0, 0, (value >> 32) as i32);
    }

    /// Passes a frame that ends before r2 + `bytes`.
    fn pass_unless_long(&mut self, bytes: i32) {
        self.push(MOVE, 4, 2, 0, 0);
        self.push(ADD_VALUE, 4, 0, 0, bytes);
        self.jump_if_registers(GREATER_REGISTER, 4, 3, Label::Pass);
    }

    fn end(&mut self, verdict: i32) {
        self.push(MOVE_VALUE, 0, 0, 0, verdict);
        self.push(EXIT, 0, 0, 0, 0);
    }

    /// r2 and r3 become the frame. Jumps to IPv4; IPv6 falls through.
    fn link_header(&mut self) {
        self.push(LOAD_32, 2, 1, CONTEXT_DATA, 0);
        self.push(LOAD_32, 3, 1, CONTEXT_END, 0);
        self.pass_unless_long(i32::from(IP) + IPV4_BYTES_MIN + TCP_BYTES_MIN);
        self.push(LOAD_16, 5, 2, ETHER_TYPE, 0);
        self.jump_if(EQUAL, 5, i32::from(0x0800_u16.to_be()), Label::Ipv4);
        self.jump_if(NOT_EQUAL, 5, i32::from(0x86dd_u16.to_be()), Label::Pass);
    }

    fn ipv6(&mut self, address: Ipv6Addr) {
        let octets = address.octets();
        let half = |from: usize| {
            let mut half = [0; 8];
            half.copy_from_slice(&octets[from..from + 8]);
            u64::from_ne_bytes(half)
        };
        self.pass_unless_long(i32::from(IP + IPV6_BYTES) + TCP_BYTES_MIN);
        self.push(LOAD_8, 5, 2, IPV6_NEXT, 0);
        self.jump_if(NOT_EQUAL, 5, TCP, Label::Pass);
        for from in [0, 8] {
            self.push(LOAD_64, 5, 2, IPV6_TARGET + from, 0);
            self.load_value_64(4, 0, half(from as usize));
            self.jump_if_registers(NOT_EQUAL_REGISTER, 5, 4, Label::Pass);
        }
        self.push(LOAD_16, 5, 2, IP + IPV6_BYTES + TCP_PORT, 0);
        self.jump_always(Label::Port);
    }

    fn ipv4(&mut self, address: Ipv4Addr) {
        self.push(LOAD_32, 5, 2, IPV4_TARGET, 0);
        let address = i32::from_ne_bytes(address.octets());
        self.jump_if(NOT_EQUAL_32, 5, address, Label::Pass);
        self.push(LOAD_8, 5, 2, IPV4_PROTOCOL, 0);
        self.jump_if(NOT_EQUAL, 5, TCP, Label::Pass);
        self.push(LOAD_16, 7, 2, IPV4_FRAGMENT, 0);
        // The header's length is in words, in the lower half of its first byte.
        self.push(LOAD_8, 5, 2, IP, 0);
        self.push(AND_VALUE, 5, 0, 0, 15);
        self.push(SHIFT_LEFT_VALUE, 5, 0, 0, 2);
        self.jump_if(LESS, 5, IPV4_BYTES_MIN, Label::Pass);
        self.push(ADD, 2, 5, 0, 0);
        self.pass_unless_long(i32::from(IP) + TCP_BYTES_MIN);
        // "More fragments" without an offset marks a first fragment; a later one has no port.
        self.push(MOVE, 8, 7, 0, 0);
        self.push(AND_VALUE, 8, 0, 0, i32::from(0x2000_u16.to_be()));
        self.push(AND_VALUE, 7, 0, 0, i32::from(0x1fff_u16.to_be()));
        self.jump_if(NOT_EQUAL, 7, 0, Label::Pass);
        self.push(LOAD_16, 5, 2, IP + TCP_PORT, 0);
    }

    /// The verdict is that of the socket of the frame's queue, and to pass it if there is none.
    fn redirect(&mut self, map: i32) {
        self.load_value_64(1, IS_MAP, map as u32 as u64);
        self.push(LOAD_32, 2, 6, CONTEXT_QUEUE, 0);
        self.push(MOVE_VALUE, 3, 0, 0, PASS);
        self.push(CALL, 0, 0, 0, REDIRECT_MAP);
        self.push(EXIT, 0, 0, 0, 0);
    }

    fn finish(self) -> Vec<Instruction> {
        debug_assert!(self.jumps.is_empty(), "every label has a place");
        self.instructions
    }
}

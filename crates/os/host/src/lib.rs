//! What a run asks of the operating system: clocks, signals, privileges, network namespaces with
//! their links, routes and a way outside, programs and probes, facts about the machine, what a
//! polling loop wants of it (cores, priority, locked memory, sockets with epoll), and folders that
//! are reached by descriptors.
//!
//! Engines never come here; roles and the binary do.

mod clock;
mod cores;
mod datagrams;
mod descriptors;
mod ender;
mod epoll;
mod facts;
mod file_maker;
mod file_times;
mod folder_error;
mod give_back;
mod giving;
mod kernel;
mod link_switch;
mod lock;
mod locked;
mod machine;
mod masquerade;
mod memory;
mod namespaces;
mod neighbours;
mod netlink;
mod node;
mod options;
mod outputs;
mod owners;
mod piped_child;
mod place;
mod policy_route;
mod ports_in_use;
mod priority;
mod privileges;
mod probe;
mod programs;
mod received;
mod redirect_target;
mod sandbox;
mod sandboxed_reader;
mod service_manager;
mod signals;
mod sockets;
mod system_calls;
mod terminal;
mod tun;
mod uplink;

pub use clock::{
    RunClock, Stopwatch, SystemClock, clock_name, monotonic_ns, read_offset, thread_cpu_ns, wall_ns,
};
pub use cores::{CoreError, Cores, Pinned, Threads};
pub use datagrams::{Datagram, Datagrams, Peer};
pub use descriptors::{DescriptorError, Descriptors};
pub use ender::Ender;
pub use epoll::{Epoll, Interest, Ready, wait_to_read, wait_to_write};
pub use facts::{ADAPTER, MachineFacts};
pub use file_maker::FileMaker;
pub use folder_error::{FolderError, is_full, way_out};
pub use give_back::GiveBack;
pub use giving::Giving;
pub use kernel::{
    Availability, HostLimits, KernelFeatures, clock_read_ns, free_disk_bytes, wake_latenesses,
};
pub use link_switch::LinkSwitch;
pub use lock::{is_alive, lock_holder, named};
pub use locked::{LockError, lock_memory, unlock_memory};
pub use machine::{MemoryUse, StealCounts};
pub use masquerade::Masquerade;
pub use memory::{prefer_huge_pages, release_free_pages, share_one_heap};
pub use namespaces::{
    NamespaceError, NetNamespace, enter_user_namespace, hand_down_network_rights,
    may_make_network_namespaces, something_listens,
};
pub use neighbours::Neighbour;
pub use netlink::{Link, LinkStats, Netlink, Rule};
pub use node::{Node, NodeCommand, NodeEnd, NodeEvent, NodeLimits, ReadyWhen};
pub use outputs::{end_outputs, goes_if_empty, make_folders, make_output, watch_outputs};
pub use owners::Owners;
pub use piped_child::{ChildOutput, Ended, PipedChild, Weighed};
pub use place::{Entry, Place, own, temporary_name};
pub use policy_route::PolicyRoute;
pub use ports_in_use::{PortInUse, ports_in_use};
pub use priority::{LOOP_PRIORITY, PriorityError, set_normal_priority, set_real_time_priority};
pub use privileges::{
    Capability, Dropped, Heirloom, PrivilegeError, Privileges, caller_of_sudo, drop_privileges,
    drop_privileges_but, heir, keep_capabilities, keep_capabilities_of_caller, may_read,
    other_user, user, without_privileges,
};
pub use probe::{Ping, ProbeError, connect_round_trip};
pub use programs::{Descendants, Program, Readiness, ask_to_end, end_with_parent};
pub use sandbox::{Confined, Sandbox, SandboxError, close_inherited};
pub use sandboxed_reader::{fork, read_sandboxed, receive_file, send_file, serve_alone, wait_for};
pub use service_manager::ServiceManager;
pub use signals::Signals;
pub use sockets::{SocketError, TcpListener, TcpOptions, TcpSocket};
pub use terminal::terminal_columns;
pub use tun::{TunError, open_tun};
pub use uplink::{Uplink, UplinkError, UplinkPlan};

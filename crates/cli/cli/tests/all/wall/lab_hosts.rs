//! `lineside lab` with nodes on other machines, which are namespaces here: by `ip netns exec`, and
//! by sshd.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value as Json;
use tempfile::TempDir;

use crate::support::{lineside, private_folder, talk, wait_until};
use crate::wall::experiments::{mark, marked};
use crate::wall::wire::{Wire, need_wire, run};

/// A server on one machine, its client on the other, and a node of this one.
const LAB: &str = r#"
lab = { seed = 4, retries = 0, ready_wait = "20s" }
[node.server]
host = "FAR"
run = "echo of $LINESIDE_ADDRESS; exec python3 -m http.server 8080 --bind 10.9.0.1"
ready = "tcp:8080"
env = { LAB_TEST = "MARK" }
[node.client]
host = "NEAR"
run = """
echo "peer: $LINESIDE_PEER_SERVER, it's '$A B'"
curl -sS -o body -w 'status: %{http_code}' http://10.9.0.1:8080/
"""
env = { A = "a $ 'b'" }
metric.status = { regex = "status: ([0-9]+)" }
[node.here]
run = "echo seed $LINESIDE_SEED; exec sleep 600"
env = { LAB_TEST = "MARK" }
"#;

/// Two namespaces that reach each other.
fn wire(what: &str) -> Wire {
    let wire = Wire::new(what, 1);
    wire.tap.ip("addr add 10.9.0.1/16 dev t0");
    wire.generator.ip("addr add 10.9.0.2/16 dev g0");
    wire.tap.ip("link set lo up");
    wire.generator.ip("link set lo up");
    wire
}

/// A lab in the network of the generator.
fn lab(wire: &Wire, folder: &Path, text: &str, rsh: &str) -> Command {
    fs::write(folder.join("it.toml"), text).expect("written");
    let mut lab = wire.generator.command(lineside().get_program());
    lab.args(["lab", "it.toml", "--force", "--rsh", rsh]);
    lab.current_dir(folder).stdin(Stdio::null());
    lab
}

fn check(output: &Output, folder: &Path, peer: &str) {
    assert!(output.status.success(), "{}", talk(output));
    let read = |name: &str| fs::read_to_string(folder.join("it/point=1/repeat=1").join(name));
    let point: Json = serde_json::from_str(&read("point.json").expect("there")).expect("JSON");
    assert_eq!(point["metrics"]["status"], 200.0, "{point}");
    assert!(point["nodes"]["client"]["cpu_ns"].is_null(), "{point}");
    let client = read("client.out").expect("there");
    let expected = format!("peer: {peer}, it's 'a $ 'b' B'\nstatus: 200");
    assert_eq!(client, expected);
    assert_eq!(
        read("server.out").expect("there").lines().next(),
        Some(&*format!("of {peer}"))
    );
    assert!(read("here.out").expect("there").starts_with("seed "));
}

#[test]
fn nodes_on_other_machines_run_and_end_with_a_lab() {
    need_wire!("ip", "curl", "python3");
    let (variable, value) = mark();
    let wire = wire("lab-hosts");
    let folder = private_folder();
    let [server, client] = [wire.tap.name(), wire.generator.name()];
    let text = LAB.replace("MARK", &value);
    let text = text.replace("FAR", server).replace("NEAR", client);
    // The name of a namespace is no name of a machine.
    let text = text.replace("tcp:8080", "curl -sS http://10.9.0.1:8080/");
    let rsh = "ip netns exec";
    let output = lab(&wire, folder.path(), &text, rsh)
        .output()
        .expect("it runs");
    check(&output, folder.path(), server);
    wait_until("nothing is left", || marked(&variable) == 0);
    // Killed, it leaves nothing there either.
    let endless = text.replace("curl -sS", "touch began; sleep 600; curl -sS");
    for signal in ["KILL", "TERM"] {
        let began = folder.path().join("began");
        let _ = fs::remove_file(&began);
        let mut child = lab(&wire, folder.path(), &endless, rsh);
        let child = child.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = child.spawn().expect("it runs");
        wait_until("it runs", || marked(&variable) >= 2 && began.exists());
        run(Command::new("kill").args(["-s", signal, &child.id().to_string()]));
        child.wait().expect("ours");
        wait_until("nothing is left", || marked(&variable) == 0);
    }
    // A machine that is not there.
    let none = text.replace(server, "nowhere");
    let output = lab(&wire, folder.path(), &none, rsh)
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
    let message = talk(&output);
    assert!(
        message.contains("node server was not reached at nowhere"),
        "{message}"
    );
    assert!(message.contains("No such file"), "{message}");
}

/// An sshd that ends with this.
struct Sshd(Child);

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Keys of a host and of a user, and what sshd reads.
fn keys() -> TempDir {
    let folder = private_folder();
    for name in ["host", "key"] {
        let mut keygen = Command::new("ssh-keygen");
        run(keygen
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(folder.path().join(name)));
    }
    let at = folder.path().display();
    let words = format!(
        "Port 22\nHostKey {at}/host\nAuthorizedKeysFile {at}/key.pub\nStrictModes no\n\
         UsePAM no\nPermitRootLogin yes\nPidFile none\n"
    );
    fs::write(folder.path().join("sshd"), words).expect("written");
    folder
}

#[test]
fn nodes_run_on_machines_that_ssh_reaches() {
    need_wire!("ip", "curl", "python3", "ssh");
    if !Path::new("/usr/sbin/sshd").exists() {
        println!("SKIP: openssh-server is missing");
        return;
    }
    // Where sshd confines what reads foreign bytes.
    fs::create_dir_all("/run/sshd").expect("root's");
    let (variable, value) = mark();
    let (wire, keys, folder) = (wire("lab-ssh"), keys(), private_folder());
    let sshd = [&wire.tap, &wire.generator].map(|namespace| {
        let mut sshd = namespace.command("/usr/sbin/sshd");
        sshd.args(["-D", "-e", "-f"]).arg(keys.path().join("sshd"));
        Sshd(sshd.stderr(Stdio::null()).spawn().expect("it runs"))
    });
    let rsh = format!(
        "ssh -F none -i {}/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
         -o LogLevel=ERROR -o BatchMode=yes -o ConnectionAttempts=20",
        keys.path().display()
    );
    let text = LAB.replace("MARK", &value);
    let text = text
        .replace("FAR", "root@10.9.0.1")
        .replace("NEAR", "root@10.9.0.2");
    let output = lab(&wire, folder.path(), &text, &rsh)
        .output()
        .expect("it runs");
    check(&output, folder.path(), "10.9.0.1");
    wait_until("nothing is left", || marked(&variable) == 0);
    drop(sshd);
}

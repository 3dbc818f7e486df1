//! Live runs in folders that only root may pass, or only the user that called sudo: what each verb
//! writes, whose it is at the end, and what a start that fails leaves.

mod wall {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
    use std::path::{Path, PathBuf};
    use std::process::{Command, Output};

    use lineside_trace::State;

    use crate::support::{example, lineside, manifest, private_folder, talk, wait_until};
    use crate::wall::live::example_frames;
    use crate::wall::wire::{Namespace, Running, Wire, need_wire};

    /// A user with a home of its own.
    const USER: u32 = 1234;

    /// What each live verb is asked for, beside where it writes.
    const VERBS: [&str; 5] = [
        "capture -i a0 --method af_packet -a duration:0.2",
        "emulate --between a0,b0 --method af_packet --delay 1ms -a duration:0.2",
        "emulate --on o0 --method af_xdp_generic --delay 1ms -a duration:0.2",
        "forward --ports a0,b0 --method af_packet --nat 10.9.2.100 -a duration:0.2",
        "load http://10.8.2.80/ -i x0 --serve-on x1 --address 10.8.1.0/24 --method af_packet -n 50",
    ];

    const SERVICE: [&str; 2] = ["--service", "tcp 10.9.1.100:80 to 10.9.2.2:8080"];

    fn ends(what: &str) -> Namespace {
        let all = Namespace::new(what);
        for (here, there) in [("a0", "a1"), ("b0", "b1"), ("o0", "o1"), ("x0", "x1")] {
            all.ip(&format!(
                "link add {here} numrxqueues 1 numtxqueues 1 type veth peer name {there} \
                 numrxqueues 1"
            ));
            for end in [here, there] {
                all.ip(&format!("link set {end} up"));
            }
        }
        all.ip("addr add 192.0.2.1/24 dev o0");
        all
    }

    /// A verb in a namespace, by a shell that does `before` first.
    fn verb(all: &Namespace, before: &str, words: &str, out: &Path) -> Command {
        let mut command = all.command("sh");
        command
            .args(["-c", &format!("{before}; exec \"$@\""), "sh"])
            .arg(lineside().get_program())
            .args(words.split(' '))
            .args(SERVICE.iter().filter(|_| words.starts_with("forward")))
            .arg("-o")
            .arg(out)
            .env_remove("SUDO_UID")
            .env_remove("SUDO_GID");
        command
    }

    fn everything_in(path: &Path) -> Vec<PathBuf> {
        let mut all = vec![path.to_owned()];
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            match entry.file_type().expect("there").is_dir() {
                true => all.extend(everything_in(&entry.path())),
                false => all.push(entry.path()),
            }
        }
        all
    }

    fn assert_all_belong_to(user: u32, path: &Path, what: &str) {
        let all = everything_in(path);
        assert!(all.len() > 1, "{what}: {all:?}");
        for path in all {
            let owner = fs::symlink_metadata(&path).expect("there").uid();
            assert_eq!(owner, user, "{what}: {}", path.display());
        }
    }

    fn assert_came_to_its_end(output: &Output, what: &str) {
        let ended = matches!(output.status.code(), Some(0 | 4));
        assert!(ended, "{what}: {}: {}", output.status, talk(output));
    }

    fn assert_writes(user: u32, command: &mut Command, out: &Path, what: &str) {
        let output = command.output().expect("it runs");
        assert_came_to_its_end(&output, what);
        let record = manifest(out);
        assert_ne!(record.verdict.state, State::Unfinished, "{what}");
        let sandbox = record.sandbox.expect("it is reported");
        assert!(sandbox.missing.is_empty(), "{what}: {sandbox:?}");
        assert_all_belong_to(user, out, what);
    }

    #[test]
    fn all_live_verbs_write_where_only_root_may() {
        need_wire!();
        let all = ends("private");
        for words in VERBS {
            let folder = private_folder();
            let at = |name: &str| folder.path().join(name);
            // An absolute path, from a folder that everybody may enter.
            let mut command = verb(&all, "cd /", words, &at("absolute"));
            assert_writes(0, &mut command, &at("absolute"), words);
            // What nobody may pass is the working directory itself.
            let mut command = verb(&all, "umask 077", words, Path::new("relative"));
            command.current_dir(folder.path());
            assert_writes(0, &mut command, &at("relative"), words);
            let what = format!("{words}, again by --force");
            let words = format!("{words} --force");
            let mut command = verb(&all, "umask 027", &words, &at("relative"));
            assert_writes(
                0,
                command.current_dir(folder.path()),
                &at("relative"),
                &what,
            );
        }
    }

    #[test]
    fn what_sudo_writes_belongs_to_its_caller() {
        need_wire!();
        let all = ends("sudo");
        let home = private_folder();
        fs::set_permissions(home.path(), Permissions::from_mode(0o750)).expect("ours");
        chown(home.path(), Some(USER), Some(USER)).expect("root may");
        let user = USER.to_string();
        for (number, words) in VERBS.into_iter().enumerate() {
            let out = home.path().join(format!("run{number}"));
            let mut command = verb(&all, "umask 077", words, &out);
            command.env("SUDO_UID", &user).env("SUDO_GID", &user);
            assert_writes(USER, command.current_dir("/"), &out, words);
        }
        // Also by a verb that stays root, and of a folder of runs.
        for options in [&[][..], &["--runs"]] {
            let out = home.path().join(format!("of_a_file{}", options.len()));
            let mut command = lineside();
            command.arg("capture").arg(example()).arg("-o").arg(&out);
            command.args(options);
            command.env("SUDO_UID", &user).env("SUDO_GID", &user);
            let output = command.output().expect("it runs");
            assert!(output.status.success(), "{}", talk(&output));
            assert_all_belong_to(USER, &out, "capture of a file");
        }
    }

    /// Killed, the run gives back what it was lent; the next one closes it.
    #[test]
    fn runs_of_root_stay_roots_when_they_are_killed_and_resumed() {
        need_wire!();
        let wire = Wire::new("resumed", 1);
        let folder = private_folder();
        let out = folder.path().join("runs");
        let runs = || -> Vec<PathBuf> {
            let found = fs::read_dir(&out).into_iter().flatten().flatten();
            let mut found: Vec<_> = found.map(|entry| entry.path()).collect();
            found.sort();
            found
        };
        for signal in ["KILL", "KILL", "INT"] {
            let before = runs().len();
            let words = "capture -i t0 --method af_packet --runs --keep 1d --rotate 1s";
            let mut command = verb(&wire.tap, "umask 077; cd /", words, &out);
            let running = Running::spawn(&mut command, out.clone(), private_folder());
            let is_written = || {
                let run = runs().into_iter().nth(before);
                run.is_some_and(|run| run.join("trace.json").exists())
            };
            running.wait_until("the run begins", is_written);
            wire.send(&example_frames());
            running.wait_until("a part is written", || {
                everything_in(&out)
                    .iter()
                    .any(|path| path.ends_with("part-000000.parquet"))
            });
            running.signal(signal);
            let ended = running.end();
            assert_eq!(
                ended.status.success(),
                signal == "INT",
                "{}",
                ended.messages
            );
            assert!(!ended.messages.contains("left alone"), "{}", ended.messages);
            wait_until("all of it is root's", || {
                let facts = everything_in(&out).into_iter();
                let mut facts = facts.filter_map(|path| fs::symlink_metadata(path).ok());
                facts.all(|facts| facts.uid() == 0)
            });
        }
        let runs = runs();
        let states: Vec<_> = runs.iter().map(|run| manifest(run).verdict.state).collect();
        assert_eq!(states[..2], [State::Incomplete, State::Incomplete]);
        assert_ne!(states[2], State::Unfinished);
    }

    #[test]
    fn a_ring_of_capture_files_turns_where_only_root_may() {
        need_wire!();
        let wire = Wire::new("ring", 1);
        for sudo in [None, Some(USER)] {
            let folder = private_folder();
            let at = |name: &str| folder.path().join(name);
            let words = format!(
                "capture -i t0 --method af_packet -b packets:10 -b files:3 -w {}",
                at("ring.pcapng").display()
            );
            let mut command = verb(&wire.tap, "umask 077; cd /", &words, &at("run"));
            if let Some(user) = sudo {
                let user = user.to_string();
                command.env("SUDO_UID", &user).env("SUDO_GID", &user);
            }
            let running = Running::spawn(&mut command, at("run"), private_folder());
            running.wait_until("the run begins", || at("run/trace.json").exists());
            let frames = example_frames();
            wire.send(&frames[..35]);
            running.wait_for_frames(35);
            running.signal("INT");
            let ended = running.end();
            assert!(ended.status.success(), "{}", ended.messages);
            let files = fs::read_dir(folder.path()).expect("there");
            let files = files.map(|entry| entry.expect("one").path());
            let mut files: Vec<_> = files.filter(|path| path.is_file()).collect();
            files.sort();
            let names: Vec<_> = files.iter().map(|path| path.to_string_lossy()).collect();
            assert_eq!(files.len(), 3, "{names:?}");
            assert!(names[0].contains("ring_00002_"), "{names:?}");
            for file in &files {
                let owner = file.metadata().expect("there").uid();
                assert_eq!(owner, sudo.unwrap_or_default(), "{names:?}");
            }
        }
    }

    /// Also of what is no live run: files and folders that any verb makes.
    #[test]
    fn what_any_verb_makes_belongs_to_who_called_sudo() {
        need_wire!();
        let folder = private_folder();
        let capture = example().into_os_string().into_string().expect("UTF-8");
        let verbs = [
            format!("capture {capture} -q -o run"),
            "report run --html page.html --assert max(READ)<1h --junit results.xml".to_owned(),
            "bundle run -o fault.tar".to_owned(),
            "plan run -o plan/of/it".to_owned(),
            "predict run --delay 1ms -o points".to_owned(),
            format!("emulate {capture} --delay 1ms -w late.pcapng"),
            "load http://127.0.0.1:9/ -n 1 -q -o load --hdr times.hlog".to_owned(),
        ];
        let user = USER.to_string();
        for words in &verbs {
            let mut command = lineside();
            command.current_dir(folder.path()).args(words.split(' '));
            command.env("SUDO_UID", &user).env("SUDO_GID", &user);
            let output = command.output().expect("it runs");
            // Nobody serves the load; its folder says so.
            let is_load = words.starts_with("load");
            assert!(
                output.status.success() || is_load,
                "{words}: {}",
                talk(&output)
            );
        }
        let made = everything_in(folder.path());
        assert!(made.len() > 20, "{made:?}");
        for path in made.iter().filter(|path| *path != folder.path()) {
            let owner = path.metadata().expect("there").uid();
            assert_eq!(owner, USER, "{}", path.display());
        }
    }

    /// What is written lands in the folder that the run made, and nobody else's changes its owner.
    #[test]
    fn a_link_put_in_the_place_of_a_run_is_not_followed() {
        need_wire!();
        let wire = Wire::new("replaced", 1);
        let folder = private_folder();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("elsewhere")).expect("made");
        fs::write(at("elsewhere/precious"), b"precious").expect("written");
        chown(at("elsewhere/precious"), Some(USER), Some(USER)).expect("root may");
        let words = "capture -i t0 --method af_packet";
        let mut command = verb(&wire.tap, "cd /", words, &at("run"));
        let running = Running::spawn(&mut command, at("run"), private_folder());
        running.wait_until("the run begins", || at("run/trace.json").exists());
        fs::rename(at("run"), at("moved")).expect("moved");
        symlink(at("elsewhere"), at("run")).expect("linked");
        wire.send(&example_frames()[..35]);
        running.wait_for_frames(35);
        running.signal("INT");
        let ended = running.end();
        assert!(ended.status.success(), "{}", ended.messages);
        let record = manifest(&at("moved"));
        assert_ne!(record.verdict.state, State::Unfinished);
        let owner = at("elsewhere/precious").metadata().expect("there").uid();
        assert_eq!(owner, USER);
        assert_eq!(fs::read_dir(at("elsewhere")).expect("there").count(), 1);
        assert_eq!(at("moved/trace.json").metadata().expect("there").uid(), 0);
    }

    /// Neither by a link in the place of the run's folder, which leads to a trace of root's, nor by
    /// a file of root's that its caller may rename into the run.
    #[test]
    fn what_a_caller_of_sudo_puts_there_is_not_given() {
        need_wire!();
        let folder = private_folder();
        let at = |name: &str| folder.path().join(name);
        let capture = |words: &[&str], out: &Path| {
            let mut command = lineside();
            command
                .arg("capture")
                .args(words)
                .arg("-q")
                .arg("-o")
                .arg(out);
            command
        };
        let example = example().into_os_string().into_string().expect("UTF-8");
        let of_root = capture(&[&example], &at("roots")).status();
        assert!(of_root.expect("it runs").success());
        fs::create_dir(at("home")).expect("made");
        chown(at("home"), Some(USER), Some(USER)).expect("root may");
        symlink(at("roots"), at("home/run")).expect("linked");
        std::os::unix::fs::lchown(at("home/run"), Some(USER), Some(USER)).expect("root may");
        let as_root = |command: &mut Command| {
            let user = USER.to_string();
            command.env("SUDO_UID", &user).env("SUDO_GID", &user);
        };
        let mut linked = capture(&[&example, "--force"], &at("home/run"));
        as_root(&mut linked);
        let output = linked.output().expect("it runs");
        assert!(!output.status.success(), "{}", talk(&output));
        assert_all_belong_to(0, &at("roots"), "a trace behind a link");
        fs::remove_file(at("home/run")).expect("removed");
        fs::write(at("home/secret"), b"root's").expect("written");
        // Before the run, by the clock of the file system.
        std::thread::park_timeout(std::time::Duration::from_millis(50));
        let mut piped = capture(&["-"], &at("home/run"));
        as_root(&mut piped);
        let mut running = piped.stdin(std::process::Stdio::piped()).spawn();
        let running = running.as_mut().expect("it runs");
        let mut pipe = running.stdin.take().expect("piped");
        let bytes = lineside_testkit::capture::bytes(Path::new(&example)).expect("the example");
        std::io::Write::write_all(&mut pipe, &bytes).expect("it reads");
        wait_until("a part is written", || at("home/run/operations").exists());
        fs::rename(at("home/secret"), at("home/run/secret")).expect("moved");
        drop(pipe);
        assert!(running.wait().expect("it ends").success());
        let owner = |name: &str| at(name).metadata().expect("there").uid();
        assert_eq!(
            (owner("home/run/secret"), owner("home/run/trace.json")),
            (0, USER)
        );
    }

    /// One message, which says what is missing where, and nothing is left.
    #[test]
    fn a_start_that_fails_leaves_nothing() {
        need_wire!();
        let all = ends("unbegun");
        let folder = private_folder();
        let at = |name: &str| folder.path().join(name);
        let open = Permissions::from_mode(0o755);
        fs::set_permissions(folder.path(), open).expect("ours");
        fs::create_dir(at("gone")).expect("made");
        let refused = |command: &mut Command, says: &str| {
            let output = command.output().expect("it runs");
            let printed = talk(&output);
            assert_eq!(output.status.code(), Some(1), "{printed}");
            assert!(printed.contains(says), "{printed}");
            assert_eq!(printed.trim().lines().count(), 1, "{printed}");
            let left: Vec<_> = everything_in(folder.path()).split_off(1);
            assert_eq!(left, [] as [PathBuf; 0], "{printed}");
        };
        let gone = format!("cd {0}; rmdir {0}", at("gone").display());
        let mut command = verb(&all, &gone, VERBS[0], Path::new("run"));
        refused(&mut command, "the working directory was removed");
        for words in VERBS {
            let before = format!("mount -t tmpfs -o ro none {}", folder.path().display());
            let mut command = verb(&all, &before, words, &at("run"));
            refused(&mut command, "name a folder of another file system with -o");
        }
        for options in ["", " --runs"] {
            let words = format!("capture -i none0{options}");
            let mut command = verb(&all, "cd /", &words, &at("run"));
            refused(&mut command, "none0");
        }
        // One that may be entered, and not written.
        let words = format!("capture {}", example().display());
        let mut command = verb(&all, "cd /", &words, &at("run"));
        let program: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        let mut as_user = Command::new("setpriv");
        let user = format!("--reuid={USER}");
        as_user
            .args([&user, "--clear-groups"])
            .args(program.iter().skip_while(|word| *word != "sh"));
        command = as_user;
        refused(
            &mut command,
            &format!("user {USER} may not write to {}", folder.path().display()),
        );
    }
}

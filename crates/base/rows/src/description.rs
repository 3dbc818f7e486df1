//! Every table and every column, described once.
//!
//! A line below gives the field of the row, the column in memory and in Parquet, its encoding, and
//! its line in `docs/guide/trace.md`: `name: kind, encoding, "meaning"` and, where null means
//! something else than the table's own `null`, `null "what"`. Names are `snake_case` with units,
//! and the same thing has the same name in every table.
//!
//! A table gives a variant of [`Table`](crate::Table) and of [`RowRef`](crate::RowRef), a field of
//! [`CollectedRows`](crate::CollectedRows) and [`RowBuffer`](crate::RowBuffer), and, in
//! `lineside-trace`, an encoder: every sink learns of a new table from the compiler. `runs Run`
//! names a type that stands for many rows of the table at once in `RowRef`.

/// Calls the macro `each` with the description of all tables, so that what a crate does with every
/// column is made from it. Of a table with `cells`, the columns in braces are those that rows in a
/// row often have in common.
#[macro_export]
macro_rules! for_each_table {
    ($each:ident) => {
        $each! {
            /// A call with its reply; of an NFSv4 compound, one of its operations.
            Operations operations OperationRow OperationColumns
            cells OperationCells {
                connection_id call_input reply_input client_address server_address client_port server_port
                transport program program_number version rpc_status auth_flavor user_id group_id
                group_ids machine_name credential_stamp retransmissions duplicate_replies
            }
            null "not in this operation, or not seen" {
                operation_id: i64, Delta, "identifies the row: the ordinal of the frame that begins it \
                times 2^18, plus its place in that frame; of a load generator, the worker times 2^54 plus \
                the request's number times 2^18";
                rpc_id: i64, Delta, "`operation_id` of the first row of the same compound; in NFSv3 the \
                row's own";
                connection_id: i64, Dictionary, "the connection, as in `connections`";
                call_time_ns: Option<i64>, Delta, "time of the frame with the first byte of the call"
                    null "the call was not seen, or its frame has no time";
                call_end_ns: Option<i64>, Delta, "time of the frame whose arrival completed the call"
                    null "the end of the call was not seen, or its frame has no time";
                reply_time_ns: Option<i64>, Delta, "time of the frame with the first byte of the reply; \
                server time is `reply_time_ns - call_end_ns`"
                    null "the reply was not seen, or its frame has no time";
                reply_end_ns: Option<i64>, Delta, "time of the frame whose arrival completed the reply"
                    null "the end of the reply was not seen, or its frame has no time";
                call_recovery_ns: Option<i64>, Dictionary, "how long the call waited for TCP to send bytes \
                again, its own or earlier ones of its stream: before `call_end_ns` if the tap did not see \
                them the first time, after it if they were lost behind the tap"
                    null "it did not wait, as far as the tap shows";
                reply_recovery_ns: Option<i64>, Dictionary, "how long the reply waited for TCP to send \
                bytes again that the tap did not see the first time; what is lost behind the tap delays \
                the client alone, and only `server_retransmissions` in `connections` shows it"
                    null "it did not wait, as far as the tap shows";
                call_frame: Option<i64>, Delta, "number of the frame that completed the call, within its \
                input, from 1, as tshark counts" null "the end of the call was not seen";
                reply_frame: Option<i64>, Delta, "number of the frame that completed the reply"
                    null "the end of the reply was not seen";
                call_input: Option<i32>, Dictionary, "the input of `call_frame`: its place in the list \
                `inputs` of `trace.json`, from 0" null "the end of the call was not seen";
                reply_input: Option<i32>, Dictionary, "the input of `reply_frame`"
                    null "the end of the reply was not seen";
                client_tap_call_ns: Option<i64>, Delta, "of captures of both ends: when the tap farther \
                from the callee saw the bytes that `call_frame` ends with, by that tap's own clock"
                    null "no second tap, or it did not see them";
                client_tap_reply_ns: Option<i64>, Delta, "the same of `reply_frame`"
                    null "no second tap, or it did not see them";
                intended_time_ns: Option<i64>, Delta, "when a load generator meant to send the call"
                    null "the row comes from a capture";
                source_operation_id: Option<i64>, Delta, "of a replay: `operation_id` of the row in the \
                source trace that it repeats" null "the row comes from no replay, or repeats no row";
                client_address: Address, Dictionary, "the caller; a callback's caller is the NFS server";
                server_address: Address, Dictionary, "the callee";
                client_port: Option<i32>, Dictionary, "port of the caller";
                server_port: Option<i32>, Dictionary, "port of the callee";
                transport: Label, Dictionary, "`tcp` or `udp`";
                xid: Option<i64>, Delta, "RPC transaction id, 0 to 2^32-1" null "the protocol has none";
                program: Word, Dictionary, "`nfs`, `mount`, `portmap`, `nlm`, `nsm`, `rquota`, `nfsacl`, \
                `klm`, `nfs_cb`; another program: its number" null "the call was not seen, and nothing \
                else shows it";
                program_number: Option<i64>, Dictionary, "RPC program number" null "the call was not seen, \
                and nothing else shows it";
                version: Option<i32>, Dictionary, "version of the program" null "the call was not seen, or \
                the number is above 2^31-1";
                operation: Word, Dictionary, "the RFC's name: `READ`, `READDIRPLUS`, `OPEN`; an unknown \
                one: its number" null "the call was not seen";
                compound_index: Option<i32>, Dictionary, "place in the NFSv4 compound, from 0"
                    null "not an operation of a compound, or a compound without readable operations";
                rpc_status: Word, Dictionary, "RPC accept state (`SUCCESS`, `PROG_UNAVAIL`, ...) or reason \
                of rejection (`RPC_MISMATCH`, `AUTH_ERROR`); an unknown one: its number"
                    null "the reply was not seen that far";
                status: Word, Dictionary, "the protocol's status: `NFS3_OK`, `NFS3ERR_STALE`; an unknown \
                one: its number" null "the reply was not seen that far, was rejected, or has none (NULL)";
                auth_flavor: Word, Dictionary, "`none`, `sys`, `gss` with its service; an unknown one: its \
                number" null "the call's credential was not seen";
                user_id: Option<i64>, Dictionary, "uid of AUTH_SYS" null "another flavor, or not seen";
                group_id: Option<i64>, Dictionary, "gid of AUTH_SYS" null "another flavor, or not seen";
                group_ids: Text, Dictionary, "AUTH_SYS: the further groups, with commas between; empty if \
                there are none" null "another flavor, not seen, or not the first row of its compound";
                machine_name: Text, Dictionary, "AUTH_SYS: what the client's host calls itself"
                    null "another flavor, not seen, or not the first row of its compound";
                credential_stamp: Option<i64>, Dictionary, "AUTH_SYS: a number of the client's choice"
                    null "another flavor, not seen, or not the first row of its compound";
                file_id: Option<i64>, Plain, "the file or directory that the operation is about: XXH3 of \
                the owning server's address and the handle" null "no handle was on the wire";
                file2_id: Option<i64>, Dictionary, "the second one of RENAME, LINK, COPY";
                result_file_id: Option<i64>, Plain, "the one that was looked up or created"
                    null "no handle in the reply, or the reply was not seen";
                name: Text, Dictionary, "name in the arguments; a path for MOUNT" null "the operation has \
                no name, or it was not seen";
                name2: Text, Dictionary, "second name: the new one of RENAME, LINK"
                    null "the operation has no second name, or it was not seen";
                offset: Option<i64>, Dictionary, "first byte asked for, in the file: the bits of an \
                unsigned number, so 2^64-1 reads -1" null "the operation has none, or it was not seen";
                count: Option<i64>, Dictionary, "bytes asked for" null "the operation has none, or it was \
                not seen";
                transferred: Option<i64>, Dictionary, "bytes moved, by the reply" null "the operation \
                moves none, failed, or the reply was not seen that far";
                file_size: Option<i64>, Dictionary, "bytes in the file after the operation, from the \
                reply's attributes" null "no attributes in the reply, or not seen";
                file_type: Word, Dictionary, "`REG`, `DIR`, `LNK`, `BLK`, `CHR`, `SOCK`, `FIFO`, from the \
                reply's attributes; an unknown one: its number" null "no attributes in the reply, or not \
                seen";
                call_bytes: Option<i64>, Dictionary, "bytes of the RPC call message, without record marks"
                    null "the call was not seen, or not the first row of its compound";
                reply_bytes: Option<i64>, Dictionary, "bytes of the RPC reply message, without record marks"
                    null "the reply was not seen, or not the first row of its compound";
                call_missing: bool, Dictionary, "the capture did not see the call";
                reply_missing: bool, Dictionary, "the capture did not see a reply";
                call_incomplete: bool, Dictionary, "some fields of the call were not seen, or contradict \
                the protocol";
                reply_incomplete: bool, Dictionary, "some fields of the reply were not seen, or contradict \
                the protocol";
                data_incomplete: bool, Dictionary, "some of the data read or written was not seen";
                not_executed: bool, Dictionary, "the server did not reach this operation of the compound";
                repeat: bool, Dictionary, "the same call had come before, and was answered or its \
                connection had ended";
                repeat_of: Option<i64>, Delta, "`rpc_id` of the first call that this one repeats" null "no \
                repeat, or that came more than 65 s before, and 25 min where it had no reply, or is \
                forgotten";
                reply_ambiguous: bool, Dictionary, "another call with this xid waited for its reply at the \
                same time: the reply may be that one's";
                retransmissions: i32, Dictionary, "times that the call came again while it was outstanding";
                duplicate_replies: i32, Dictionary, "replies to the call after the first";
                failure: Label, Dictionary, "why a load generator's request has no answer: `reset`, \
                `closed`, `timeout`, `unreachable`, `protocol`, `local`" null "it has one, or the row comes \
                from a capture";
            }

            /// A 512-byte block, at a file offset that is a multiple of 512, of READ or WRITE data
            /// that was seen whole.
            Checksums checksums ChecksumRow ChecksumColumns runs ChecksumRun null "" {
                operation_id: i64, Runs, "the operation that moved the block";
                block: i64, Delta, "offset in the file / 512";
                checksum: i64, Plain, "XXH3 of the block, 64 bits, seed 0: the bits of an unsigned number";
            }

            /// What NFS of any version has, and NFSACL's attributes and access: a row for each
            /// operation that has any of it.
            Nfs nfs NfsRow NfsColumns cells NfsCells {} null "not in this operation, or not seen" {
                operation_id: i64, Delta, "the operation";
                stable_how: Word, Dictionary, "WRITE: what was asked: `UNSTABLE`, `DATA_SYNC`, `FILE_SYNC`";
                create_mode: Word, Dictionary, "CREATE: `UNCHECKED`, `GUARDED`, `EXCLUSIVE`";
                create_verifier: Option<i64>, Dictionary, "CREATE with `EXCLUSIVE`: the client's verifier, \
                its bits";
                access_requested: Option<i64>, Dictionary, "ACCESS: the bits asked for (RFC 1813, 3.3.4)";
                cookie: Option<i64>, Dictionary, "READDIR, READDIRPLUS: where to go on, its bits; 0 is the \
                beginning";
                cookie_verifier: Option<i64>, Dictionary, "READDIR, READDIRPLUS: verifier of the cookie, \
                its bits";
                directory_bytes: Option<i64>, Dictionary, "READDIRPLUS: most bytes of names and cookies \
                (`dircount`)";
                bytes_max: Option<i64>, Dictionary, "READDIR (`count`), READDIRPLUS (`maxcount`): most \
                bytes of the result";
                set_mode: Option<i64>, Dictionary, "attributes to set: permission bits";
                set_uid: Option<i64>, Dictionary, "attributes to set: owner";
                set_gid: Option<i64>, Dictionary, "attributes to set: group";
                set_size: Option<i64>, Dictionary, "attributes to set: bytes in the file, the bits of an \
                unsigned number";
                set_atime_how: Word, Dictionary, "attributes to set: access time: `DONT_CHANGE`, \
                `SET_TO_SERVER_TIME`, `SET_TO_CLIENT_TIME`";
                set_atime_ns: Option<i64>, Dictionary, "attributes to set: access time, nanoseconds since \
                1970" null "not `SET_TO_CLIENT_TIME`, or not seen";
                set_mtime_how: Word, Dictionary, "attributes to set: modification time: as `set_atime_how`";
                set_mtime_ns: Option<i64>, Dictionary, "attributes to set: modification time, nanoseconds \
                since 1970" null "not `SET_TO_CLIENT_TIME`, or not seen";
                attribute_bitmap: Blob, Dictionary, "NFSv4: attributes that GETATTR, READDIR ask for, and \
                that VERIFY, NVERIFY, SETATTR, CREATE, OPEN give. Words of 32 bits as on the wire: \
                attribute 0 is the lowest bit of the first word";
                attribute_values: Blob, Dictionary, "NFSv4: the values that VERIFY, NVERIFY, SETATTR, \
                CREATE, OPEN give of those attributes, as on the wire"
                    null "not in this operation, more than 4,096 bytes, or not seen";
                guard_ctime_ns: Option<i64>, Dictionary, "SETATTR: only if the change time is this"
                    null "no guard, or not seen";
                node_type: Word, Dictionary, "MKNOD: `CHR`, `BLK`, `SOCK`, `FIFO`";
                device_major: Option<i64>, Dictionary, "MKNOD: major number of the device";
                device_minor: Option<i64>, Dictionary, "MKNOD: minor number of the device";
                symlink_target: Text, Dictionary, "SYMLINK, READLINK: what the link holds";
                access_granted: Option<i64>, Dictionary, "ACCESS: the bits granted";
                committed: Word, Dictionary, "WRITE: what the server did: `UNSTABLE`, `DATA_SYNC`, \
                `FILE_SYNC`";
                write_verifier: Option<i64>, Dictionary, "WRITE, COMMIT: the server's verifier, its bits; \
                it changes when the server restarts";
                eof: Option<bool>, Dictionary, "READ, READDIR, READDIRPLUS: the end was reached";
                entries: Option<i64>, Dictionary, "READDIR, READDIRPLUS: entries in the reply";
                reply_cookie_verifier: Option<i64>, Dictionary, "READDIR, READDIRPLUS: the verifier for \
                the next call, its bits";
                mode: Option<i64>, Dictionary, "object afterwards: permission bits";
                links: Option<i64>, Dictionary, "object afterwards: hard links";
                owner_id: Option<i64>, Dictionary, "object afterwards: owner";
                owner_group_id: Option<i64>, Dictionary, "object afterwards: group of the owner";
                used_bytes: Option<i64>, Dictionary, "object afterwards: bytes of disk it takes";
                rdev_major: Option<i64>, Dictionary, "object afterwards: major number, if it is a device";
                rdev_minor: Option<i64>, Dictionary, "object afterwards: minor number, if it is a device";
                filesystem_id: Option<i64>, Dictionary, "object afterwards: file system on the server \
                (`fsid`), its bits";
                fileid: Option<i64>, Dictionary, "object afterwards: number within the file system \
                (inode), its bits";
                atime_ns: Option<i64>, Plain, "object afterwards: access time, nanoseconds since 1970"
                    null "no attributes in the reply, not seen, or it does not fit in 64 bits";
                mtime_ns: Option<i64>, Plain, "object afterwards: modification time, nanoseconds since 1970"
                    null "no attributes in the reply, not seen, or it does not fit in 64 bits";
                ctime_ns: Option<i64>, Plain, "object afterwards: change time, nanoseconds since 1970"
                    null "no attributes in the reply, not seen, or it does not fit in 64 bits";
                before_size: Option<i64>, Dictionary, "object before the operation: bytes in the file";
                before_mtime_ns: Option<i64>, Plain, "object before the operation: modification time, \
                nanoseconds since 1970";
                before_ctime_ns: Option<i64>, Plain, "object before the operation: change time, \
                nanoseconds since 1970";
                directory_before_size: Option<i64>, Dictionary, "directory before the operation: bytes";
                directory_before_mtime_ns: Option<i64>, Plain, "directory before the operation: \
                modification time, nanoseconds since 1970";
                directory_before_ctime_ns: Option<i64>, Plain, "directory before the operation: change \
                time, nanoseconds since 1970";
                directory_size: Option<i64>, Dictionary, "directory afterwards: bytes";
                directory_mode: Option<i64>, Dictionary, "directory afterwards: permission bits";
                directory_links: Option<i64>, Dictionary, "directory afterwards: hard links";
                directory_fileid: Option<i64>, Dictionary, "directory afterwards: number within the file \
                system (inode), its bits";
                directory_mtime_ns: Option<i64>, Plain, "directory afterwards: modification time, \
                nanoseconds since 1970";
                directory_ctime_ns: Option<i64>, Plain, "directory afterwards: change time, nanoseconds \
                since 1970";
                directory2_fileid: Option<i64>, Dictionary, "second directory (RENAME, LINK) afterwards: \
                number within the file system (inode), its bits";
                directory2_before_mtime_ns: Option<i64>, Plain, "second directory (RENAME, LINK) before \
                the operation: modification time, nanoseconds since 1970";
                directory2_mtime_ns: Option<i64>, Plain, "second directory (RENAME, LINK) afterwards: \
                modification time, nanoseconds since 1970";
                total_bytes: Option<i64>, Dictionary, "FSSTAT: bytes in the file system";
                free_bytes: Option<i64>, Dictionary, "FSSTAT: bytes free";
                available_bytes: Option<i64>, Dictionary, "FSSTAT: bytes free for this user";
                total_files: Option<i64>, Dictionary, "FSSTAT: file slots";
                free_files: Option<i64>, Dictionary, "FSSTAT: file slots free";
                available_files: Option<i64>, Dictionary, "FSSTAT: file slots free for this user";
                invariant_seconds: Option<i64>, Dictionary, "FSSTAT: seconds for which the file system is \
                not expected to change";
                read_max: Option<i64>, Dictionary, "FSINFO: most bytes of a READ";
                read_preferred: Option<i64>, Dictionary, "FSINFO: preferred bytes of a READ";
                read_multiple: Option<i64>, Dictionary, "FSINFO: suggested multiple of bytes of a READ";
                write_max: Option<i64>, Dictionary, "FSINFO: most bytes of a WRITE";
                write_preferred: Option<i64>, Dictionary, "FSINFO: preferred bytes of a WRITE";
                write_multiple: Option<i64>, Dictionary, "FSINFO: suggested multiple of bytes of a WRITE";
                directory_preferred: Option<i64>, Dictionary, "FSINFO: preferred bytes of a READDIR";
                file_size_max: Option<i64>, Dictionary, "FSINFO: most bytes in a file, the bits of an \
                unsigned number, so 2^64-1 reads -1";
                time_delta_ns: Option<i64>, Dictionary, "FSINFO: granularity of the server's times, \
                nanoseconds";
                properties: Option<i64>, Dictionary, "FSINFO: properties, bits (RFC 1813, 3.3.19)";
                links_max: Option<i64>, Dictionary, "PATHCONF: most hard links to an object";
                name_max: Option<i64>, Dictionary, "PATHCONF: most bytes in a name";
                no_truncation: Option<bool>, Dictionary, "PATHCONF: a name that is too long is an error";
                chown_restricted: Option<bool>, Dictionary, "PATHCONF: only a privileged user may change \
                owner or group";
                case_insensitive: Option<bool>, Dictionary, "PATHCONF: names differ not by case alone";
                case_preserving: Option<bool>, Dictionary, "PATHCONF: the case of names is kept";
            }

            /// What only NFSv4 has: a row for each operation that has any of it.
            Nfs4 nfs4 Nfs4Row Nfs4Columns null "not in this operation, or not seen" {
                operation_id: i64, Delta, "the operation";
                minor_version: Option<i64>, Dictionary, "COMPOUND, first row: minor version of NFSv4";
                tag: Text, Dictionary, "COMPOUND, first row: the tag that the client gave it";
                compound_operations: Option<i64>, Dictionary, "COMPOUND, first row: operations in the \
                call, by its header";
                compound_status: Word, Dictionary, "COMPOUND, first row: status of the whole";
                session: Blob, Dictionary, "SEQUENCE and others: session id, 16 bytes";
                slot: Option<i64>, Dictionary, "SEQUENCE: slot in the session";
                slot_sequence: Option<i64>, Delta, "SEQUENCE: sequence id of the slot; \
                BIND_CONN_TO_SESSION, CREATE_SESSION have none";
                highest_slot: Option<i64>, Dictionary, "SEQUENCE: highest slot in use by the client";
                cache_reply: Option<bool>, Dictionary, "SEQUENCE: the server is asked to keep the reply";
                client_id: Option<i64>, Dictionary, "client id that the operation names or gives, its bits";
                owner: Blob, Dictionary, "OPEN, LOCK: the owner, as the client names it";
                owner_sequence: Option<i64>, Delta, "OPEN, OPEN_CONFIRM, OPEN_DOWNGRADE, CLOSE, \
                LOCK, LOCKU: sequence number of the owner, which NFSv4.1 has no use for";
                client_name: Blob, Dictionary, "EXCHANGE_ID, SETCLIENTID: what the client calls itself";
                client_verifier: Option<i64>, Dictionary, "the same: the verifier, another one after \
                each start of the client, its bits";
                stateid: Blob, Dictionary, "state id in the arguments, without its sequence: 12 bytes";
                stateid_sequence: Option<i64>, Dictionary, "its sequence";
                reply_stateid: Blob, Dictionary, "state id in the results, without its sequence: 12 bytes";
                reply_stateid_sequence: Option<i64>, Dictionary, "its sequence";
                share_access: Option<i64>, Dictionary, "OPEN: bits: 1 read, 2 write; from 256 on what \
                delegation is wanted";
                share_deny: Option<i64>, Dictionary, "OPEN: bits: 1 read, 2 write";
                claim: Word, Dictionary, "OPEN: on what grounds: `CLAIM_NULL`, `CLAIM_FH`, \
                `CLAIM_PREVIOUS`, ...";
                open_flags: Option<i64>, Dictionary, "OPEN: flags of the result (RFC 8881, 18.16.2)";
                delegation: Word, Dictionary, "OPEN: `OPEN_DELEGATE_NONE`, `OPEN_DELEGATE_READ`, \
                `OPEN_DELEGATE_WRITE`, ...";
                delegation_stateid: Blob, Dictionary, "OPEN: state id of the delegation, without its \
                sequence: 12 bytes";
                arguments: Blob, Dictionary, "all arguments as on the wire, of operations that no other \
                columns have whole: LOCK, EXCHANGE_ID, CREATE_SESSION, SETCLIENTID, LAYOUTGET, COPY, ..."
                    null "other columns have them, more than 4,096 bytes, or not seen";
                lock_type: Word, Dictionary, "LOCK, LOCKT, LOCKU: `READ_LT`, `WRITE_LT`, `READW_LT`, \
                `WRITEW_LT`";
                layout_type: Word, Dictionary, "pNFS: `LAYOUT4_NFSV4_1_FILES`, `LAYOUT4_FLEX_FILES`, ...";
                layout_mode: Word, Dictionary, "pNFS: `LAYOUTIOMODE4_READ`, `LAYOUTIOMODE4_RW`, \
                `LAYOUTIOMODE4_ANY`";
                layouts: Option<i64>, Dictionary, "LAYOUTGET: layouts in the reply";
                device: Blob, Dictionary,
                    "pNFS: device id, of LAYOUTGET that of the first layout: 16 bytes";
                content: Word, Dictionary, "SEEK: what is looked for: `NFS4_CONTENT_DATA`, \
                `NFS4_CONTENT_HOLE`";
                source_offset: Option<i64>, Dictionary, "COPY, CLONE: first byte in the source, which is \
                `file_id`";
                reply_offset: Option<i64>, Dictionary, "SEEK: where it was found";
                reply_flags: Option<i64>, Dictionary, "EXCHANGE_ID, CREATE_SESSION, SEQUENCE: flags of the \
                result";
                stateid_statuses: Text, Dictionary, "TEST_STATEID: the status of each state id, with \
                commas between";
                change: Option<i64>, Dictionary, "object afterwards: change attribute, its bits";
                owner_name: Text, Dictionary, "object afterwards: owner, as NFSv4 names it";
                owner_group_name: Text, Dictionary, "object afterwards: group of the owner, as NFSv4 names \
                it";
                acl_entries: Option<i64>, Dictionary, "object afterwards: entries of its access control \
                list";
                directory_change_before: Option<i64>, Dictionary, "directory before the operation: change \
                attribute, its bits";
                directory_change: Option<i64>, Dictionary, "directory afterwards: change attribute, its \
                bits";
                directory_change_atomic: Option<bool>, Dictionary, "nothing else changed the directory \
                between the two";
            }

            /// What the programs beside NFS have (MOUNT, portmap, rpcbind, NLM, KLM, NSM, RQUOTA,
            /// NFSACL), and why RPC refused a call of any program: a row for each call that has any
            /// of it.
            Services services ServiceRow ServiceColumns null "not in this call, or not seen" {
                operation_id: i64, Delta, "the call, as in `operations`";
                auth_error: Word, Dictionary, "`AUTH_ERROR` in `rpc_status`: the reason: \
                `AUTH_TOOWEAK`, `RPCSEC_GSS_CREDPROBLEM`, ...";
                version_min: Option<i64>, Dictionary, "`PROG_MISMATCH` in `rpc_status`: the lowest \
                version of the program that the server has; `RPC_MISMATCH`: of RPC";
                version_max: Option<i64>, Dictionary, "the highest one";
                auth_flavors: Text, Dictionary, "MNT: the authentication flavors that the server accepts, \
                with commas between";
                entries: Option<i64>, Dictionary, "DUMP, EXPORT, GETADDRLIST: entries of the list in the \
                reply";
                target_program: Option<i64>, Dictionary, "portmap, rpcbind: the program asked for; NSM: \
                the one to call back";
                target_version: Option<i64>, Dictionary, "portmap, rpcbind, NSM: its version";
                target_procedure: Option<i64>, Dictionary, "CALLIT, BCAST, INDIRECT, NSM: its procedure";
                target_protocol: Option<i64>, Dictionary, "portmap: its transport: 6 TCP, 17 UDP";
                target_port: Option<i64>, Dictionary, "portmap: its port, 0 for none: a label, never a \
                hint what to read";
                netid: Text, Dictionary, "rpcbind: kind of transport: `tcp`, `udp6`";
                target_address: Text, Dictionary, "rpcbind: its universal address, empty for none";
                transport_address: Blob, Dictionary, "UADDR2TADDR, TADDR2UADDR: an address as the \
                transport has it";
                service_owner: Text, Dictionary, "rpcbind: the owner that registered the program";
                done: Option<bool>, Dictionary, "SET, UNSET: it was done";
                forwarded_bytes: Option<i64>, Dictionary, "CALLIT, BCAST, INDIRECT: bytes of the results \
                passed on or, without a reply, of the arguments";
                server_time_ns: Option<i64>, Dictionary, "GETTIME: the server's time, whole seconds as \
                nanoseconds since 1970";
                lock_cookie: Blob, Dictionary, "NLM: what the call has in common with the one that answers \
                it: `LOCK_MSG` with `LOCK_RES`, LOCK with GRANTED if it waits";
                lock_type: Word, Dictionary, "NLM, KLM: `shared`, `exclusive`; the bytes are `offset` and \
                `count` in `operations`, where 0 bytes reach to the end of the file";
                blocking: Option<bool>, Dictionary, "NLM, KLM: the caller waits for the lock";
                reclaim: Option<bool>, Dictionary, "NLM: the lock or share was held before the server \
                restarted";
                svid: Option<i64>, Dictionary, "NLM, KLM: the process that locks, on its host";
                owner: Blob, Dictionary, "NLM: the owner of the lock or share, as the client names it";
                holder_lock_type: Word, Dictionary, "NLM, KLM, TEST denied: the lock in the way: `shared`, \
                `exclusive`";
                holder_svid: Option<i64>, Dictionary, "the lock in the way: the process that holds it, on \
                its host";
                holder_owner: Blob, Dictionary, "NLM, the lock in the way: its owner";
                holder_offset: Option<i64>, Dictionary, "the lock in the way: its first byte in the file";
                holder_count: Option<i64>, Dictionary, "the lock in the way: its bytes, 0 up to the end of \
                the file";
                share_access: Option<i64>, Dictionary, "SHARE, UNSHARE: what the caller wants, bits: 1 \
                read, 2 write";
                share_deny: Option<i64>, Dictionary, "SHARE, UNSHARE: what others may not do meanwhile, \
                bits: 1 read, 2 write";
                share_sequence: Option<i64>, Dictionary, "SHARE, UNSHARE: the server's number of this \
                change";
                monitor_state: Option<i64>, Dictionary, "NLM, NSM: state number of a status monitor, odd \
                while its host is up";
                quota_id: Option<i64>, Dictionary, "RQUOTA: user or group";
                quota_type: Option<i64>, Dictionary, "RQUOTA version 2: 0 for a user, 1 for a group";
                quota_command: Option<i64>, Dictionary, "SETQUOTA: the command, as quotactl(2) has it";
                quota_active: Option<bool>, Dictionary, "RQUOTA: the limits are enforced";
                quota_block_bytes: Option<i64>, Dictionary, "RQUOTA: bytes of a block";
                quota_blocks_hard: Option<i64>, Dictionary, "RQUOTA: blocks that may never be passed, 0 \
                for no limit; in SETQUOTA this and the next are what was asked for unless the reply tells \
                        them";
                quota_blocks_soft: Option<i64>, Dictionary, "RQUOTA: blocks that may be passed for a time";
                quota_blocks_used: Option<i64>, Dictionary, "RQUOTA: blocks in use";
                quota_files_hard: Option<i64>, Dictionary, "RQUOTA: files that may never be passed";
                quota_files_soft: Option<i64>, Dictionary, "RQUOTA: files that may be passed for a time";
                quota_files_used: Option<i64>, Dictionary, "RQUOTA: files in use";
                quota_blocks_seconds_left: Option<i64>, Dictionary, "RQUOTA: seconds until the soft limit \
                of blocks holds";
                quota_files_seconds_left: Option<i64>, Dictionary, "RQUOTA: seconds until the soft limit \
                of files holds";
                acl_mask: Option<i64>, Dictionary, "NFSACL: which lists, bits: 1 the list, 2 its length, 4 \
                the default list, 8 its length";
                acl_entries: Option<i64>, Dictionary, "NFSACL: entries of the access control list";
                acl_default_entries: Option<i64>, Dictionary, "NFSACL: entries of the default list";
                creates: Option<bool>, Dictionary, "GETXATTRDIR: the directory is made if there is none";
            }

            /// A connection in one interval (60 s by default, at multiples of that since 1970). A
            /// long connection has many rows: sum by `connection_id`.
            Connections connections ConnectionRow ConnectionColumns null "not known" {
                connection_id: i64, Delta, "identifies the connection: the ordinal of its first frame \
                times 2^18, plus its place in that frame";
                interval_start_ns: Option<i64>, Delta, "begin of the interval" null "no frame of the \
                connection has a time";
                interval_ns: Option<i64>, Dictionary, "length of the interval" null "no frame of the \
                connection has a time";
                first_packet_ns: Option<i64>, Delta, "when the connection's first packet passed in the \
                interval" null "none of its frames has a time";
                client_address: Address, Dictionary, "the end that opened the connection or, if that was \
                not seen, the end that calls";
                server_address: Address, Dictionary, "the other one";
                client_port: Option<i32>, Dictionary, "port of the client";
                server_port: Option<i32>, Dictionary, "port of the server";
                transport: Label, Dictionary, "`tcp` or `udp`";
                client_packets: i64, Dictionary, "packets that the client sent";
                client_bytes: i64, Dictionary,
                    "payload bytes of those packets, retransmitted ones included";
                client_retransmitted_bytes: i64, Dictionary, "payload bytes from the client that had been \
                seen before";
                client_out_of_order_packets: i64, Dictionary, "segments from the client that came after \
                later ones, by less than a round trip: on the way they were overtaken";
                client_lost_bytes: i64, Dictionary, "payload bytes from the client that never came";
                client_retransmissions: i64, Dictionary, "TCP segments that the client sent again, SYN and FIN \
                too; of those that the tap did not see before, the ones that come a round trip or more \
                after later ones";
                client_fast_retransmissions: i64, Dictionary, "of them, segments that duplicate \
                acknowledgements asked for, within 20 ms";
                client_timeout_retransmissions: i64, Dictionary, "of them, segments that no acknowledgement \
                asked for: a timer of the client ran out, and what it sent again because of that";
                client_spurious_retransmissions: i64, Dictionary, "of them, segments that the server had \
                already: acknowledged before they came, or reported by it as a duplicate (D-SACK), which \
                are among the fast ones or those by timeout too";
                client_duplicate_acks: i64, Dictionary, "acknowledgements from the client without payload that \
                repeat the one before, window included";
                client_zero_windows: i64, Dictionary, "segments in which the client had no room for more";
                client_full_windows: i64, Dictionary, "segments of the client that end where the window of the \
                server ends; none is counted if its SYN was not seen";
                client_window_waits: i64, Dictionary, "times that the client stopped where less than a segment was \
                left of the server's window, and went on within two round trips of the acknowledgement that \
                made room; none is counted if a SYN was not seen, if the server sent data in between, or at a tap near \
                the server, from which acknowledgements leave before the client lacks room";
                client_syns: i64, Dictionary, "SYNs that the client sent, also those that answer one";
                client_fins: i64, Dictionary, "FINs that the client sent";
                client_resets: i64, Dictionary, "RSTs that the client sent";
                client_stuck_ns: i64, Dictionary, "the longest time over which the client sent the same bytes again, \
                or the server asked for them by SACK, without an acknowledgement of them; longer than the \
                interval if it began before";
                client_stuck_since_ns: Option<i64>, Delta, "when that time began" null "there was none";
                client_stuck_bytes: i64, Dictionary, "of these bytes, payload of the segment that did not get \
                through; if the tap saw none, all that is missing; 0: it did in the end";
                client_passed_bytes: i64, Dictionary, "payload of the longest segment that got through meanwhile, \
                or in their place; 0: none is known";
                client_shut_ns: i64, Dictionary, "the longest time for which the client's window was shut while the \
                server asked for room; longer than the interval if it began before";
                client_shut_since_ns: Option<i64>, Delta, "when that time began" null "there was none";
                client_segment_max_bytes: i64, Dictionary, "payload of the longest segment or datagram from \
                the client; beyond the MTU, the host that captured had not cut it or had joined several";
                client_peak_1ms_bytes: i64, Dictionary, "bytes of the frames from the client in the busiest \
                millisecond";
                client_peak_1s_bytes: i64, Dictionary, "bytes of the frames from the client in the busiest second";
                server_packets: i64, Dictionary, "packets that the server sent";
                server_bytes: i64, Dictionary,
                    "payload bytes of those packets, retransmitted ones included";
                server_retransmitted_bytes: i64, Dictionary, "payload bytes from the server that had been \
                seen before";
                server_out_of_order_packets: i64, Dictionary, "segments from the server that came after \
                later ones, by less than a round trip: on the way they were overtaken";
                server_lost_bytes: i64, Dictionary, "payload bytes from the server that never came";
                server_retransmissions: i64, Dictionary, "TCP segments that the server sent again, SYN and FIN \
                too; of those that the tap did not see before, the ones that come a round trip or more \
                after later ones";
                server_fast_retransmissions: i64, Dictionary, "of them, segments that duplicate \
                acknowledgements asked for, within 20 ms";
                server_timeout_retransmissions: i64, Dictionary, "of them, segments that no acknowledgement \
                asked for: a timer of the server ran out, and what it sent again because of that";
                server_spurious_retransmissions: i64, Dictionary, "of them, segments that the client had \
                already: acknowledged before they came, or reported by it as a duplicate (D-SACK), which \
                are among the fast ones or those by timeout too";
                server_duplicate_acks: i64, Dictionary, "acknowledgements from the server without payload that \
                repeat the one before, window included";
                server_zero_windows: i64, Dictionary, "segments in which the server had no room for more";
                server_full_windows: i64, Dictionary, "segments of the server that end where the window of the \
                client ends; none is counted if its SYN was not seen";
                server_window_waits: i64, Dictionary, "times that the server stopped where less than a segment was \
                left of the client's window, and went on within two round trips of the acknowledgement that \
                made room; none is counted if a SYN was not seen, if the client sent data in between, or at a tap near \
                the client, from which acknowledgements leave before the server lacks room";
                server_syns: i64, Dictionary, "SYNs that the server sent, also those that answer one";
                server_fins: i64, Dictionary, "FINs that the server sent";
                server_resets: i64, Dictionary, "RSTs that the server sent";
                server_stuck_ns: i64, Dictionary, "the longest time over which the server sent the same bytes again, \
                or the client asked for them by SACK, without an acknowledgement of them; longer than the \
                interval if it began before";
                server_stuck_since_ns: Option<i64>, Delta, "when that time began" null "there was none";
                server_stuck_bytes: i64, Dictionary, "of these bytes, payload of the segment that did not get \
                through; if the tap saw none, all that is missing; 0: it did in the end";
                server_passed_bytes: i64, Dictionary, "payload of the longest segment that got through meanwhile, \
                or in their place; 0: none is known";
                server_shut_ns: i64, Dictionary, "the longest time for which the server's window was shut while the \
                client asked for room; longer than the interval if it began before";
                server_shut_since_ns: Option<i64>, Delta, "when that time began" null "there was none";
                server_segment_max_bytes: i64, Dictionary, "payload of the longest segment or datagram from \
                the server; beyond the MTU, the host that captured had not cut it or had joined several";
                server_peak_1ms_bytes: i64, Dictionary, "bytes of the frames from the server in the busiest \
                millisecond";
                server_peak_1s_bytes: i64, Dictionary, "bytes of the frames from the server in the busiest second";
                rtt_min_ns: Option<i64>, Dictionary, "shortest round trip at the tap: from a segment, of \
                either side, to the acknowledgement that covers it"
                    null "none was measured in the interval";
                rtt_ns: Option<i64>, Dictionary, "mean round trip at the tap in the interval"
                    null "none was measured in the interval";
                client_rtt_min_ns: Option<i64>, Dictionary, "shortest way from the tap to the client and \
                back: from a segment of the server to the acknowledgement that covers it"
                    null "none was measured in the interval";
                client_rtt_ns: Option<i64>, Dictionary, "its mean; acknowledgements may be delayed, by 40 \
                ms and more" null "none was measured in the interval";
                server_rtt_min_ns: Option<i64>, Dictionary, "shortest way from the tap to the server and \
                back: from a segment of the client to the acknowledgement that covers it"
                    null "none was measured in the interval";
                server_rtt_ns: Option<i64>, Dictionary, "its mean; an acknowledgement that comes with the \
                reply took as long as the reply" null "none was measured in the interval";
                client_last_packet_ns: Option<i64>, Delta, "when the client's last packet passed"
                    null "none did in the interval, or none with a time";
                server_last_packet_ns: Option<i64>, Delta, "when the server's last packet passed"
                    null "none did in the interval, or none with a time";
                ended_ns: Option<i64>, Delta, "when the first FIN or RST passed by which a side ended \
                the connection" null "none did in the interval";
                refused: i64, Dictionary, "connections asked for, by either end, that an RST refused";
                challenged: i64, Dictionary, "connections asked for, by either end, that the other answered \
                with an acknowledgement of an older connection between the same ports (RFC 5961)";
                reply_ack_waits: i64, Dictionary, "replies that left within a round trip of a late \
                acknowledgement that freed them, or behind such replies: it was of all that the server had \
                sent, or opened a full window";
                reply_ack_wait_ns: i64, Dictionary, "how long these replies were kept back at most: that is \
                no time of the server";
                outstanding_max: i64, Dictionary, "RPC calls that waited for their replies at once, at \
                most";
                resynchronised: i64, Dictionary, "times that the place of the next RPC record was lost and \
                found again";
                vlan_ids: Text, Dictionary, "VLAN ids of the first frame, those in its tunnels too, the \
                outer one first, with commas between" null "no VLAN tag";
                encapsulation: Text, Dictionary, "tunnels around the packets, first frame, the outer one \
                first, with commas between: `ipip`, `gre`, `erspan1`, `erspan2`, `erspan3`, `vxlan`, \
                        `vxlan-gpe`, `geneve`, `mpls` (each label), `pppoe`, `pbb`, `gtp`, `l2tp`, `etherip`, \
                        `lisp`, `tzsp`"
                    null "no tunnel";
                tunnel_ids: Text, Dictionary, "the number that each of them carries, with commas between: \
                GRE's key, ERSPAN's session, the network identifier of VXLAN and GENEVE, MPLS's label, \
                        the session of PPPoE and L2TP, 802.1ah's service, GTP's endpoint; nothing where \
                        there is none"
                    null "no tunnel carries a number";
                outer_source_address: Address, Dictionary, "source of the outermost tunnel with addresses, \
                first frame" null "no tunnel, or only MPLS";
                outer_destination_address: Address, Dictionary, "destination of the outermost tunnel with \
                addresses, first frame" null "no tunnel, or only MPLS";
                program: Word, Dictionary, "the RPC program seen first, as in `operations`"
                    null "no RPC was seen";
                tls_seen: bool, Dictionary, "TLS records were seen: what they hold was not read";
            }

            /// What was learned of a file: facts, each new one once per connection. The newest by
            /// `file_id` holds.
            Files files FileRow FileColumns null "not reported by this operation" {
                file_id: Option<i64>, Dictionary, "the file or directory, as in `operations`"
                    null "a name that READDIR listed without a handle";
                operation_id: i64, Delta, "the operation that reported it";
                time_ns: Option<i64>, Delta, "when: time of the frame that completed the message with the \
                fact" null "the frame has no time";
                server_address: Address, Dictionary, "the server that owns it";
                handle: Blob, Dictionary, "the file handle, as on the wire";
                parent_file_id: Option<i64>, Dictionary, "the directory in which it has `name`";
                name: Text, Dictionary, "its name in that directory; for MNT the exported path";
                fileid: Option<i64>, Delta, "READDIR, READDIRPLUS: its number within the file system \
                (inode), its bits";
                file_type: Word, Dictionary, "as in `operations`";
                file_size: Option<i64>, Dictionary, "bytes in the file";
            }

            /// Bytes of a stream that never arrived, frames that a port dropped, or files that a
            /// ring lost.
            Losses losses LossRow LossColumns null "not known" {
                connection_id: Option<i64>, Dictionary, "the connection, as in `connections`"
                    null "a port's dropped frames, files of a ring, many holes";
                direction: Label, Dictionary, "`client_to_server` or `server_to_client`"
                    null "a port's dropped frames, files of a ring, many holes";
                time_ns: Option<i64>, Delta, "when the bytes were taken for lost, the call came, or the \
                drops or files were counted"
                    null "the frame has no time";
                first_byte: Option<i64>, Delta, "offset of the first missing byte in the stream, from the \
                first byte seen" null "a port's dropped frames, files of a ring, a call, many holes";
                bytes: Option<i64>, Dictionary, "missing bytes, of all holes of a second where \
                these were too many (`stream.holes_merged`)"
                    null "a port's dropped frames, files of a ring, a call";
                cause: Label, Dictionary, "`not_seen`: acknowledged, but the tap did not see them; `lost`: \
                the receiver did not acknowledge them and asked for them again, they were lost on the way; \
                `damaged`: they came in segments with wrong checksums only; \
                `snap_length`: the capture cut the frame; `given_up`: memory ran short before they came; \
                `call_given_up`: a call that waited for its reply when memory ran short; `port_dropped`; \
                `ring_lapped`: the writer of a ring of files overwrote or deleted what was not read";
                frames: Option<i64>, Dictionary, "dropped frames"
                    null "bytes of a stream, a call, files of a ring";
                input: Option<i32>, Dictionary, "the input: its place in the list `inputs` of \
                `trace.json`, from 0" null "more than one, or not known";
            }

            /// A frame (only on request).
            Packets packets PacketRow PacketColumns null "not such a packet, or cut" {
                frame_id: i64, Delta, "ordinal of the frame among all inputs, from 1: `operation_id` of \
                what it begins is this times 2^18 and more";
                input: i32, Dictionary, "the input: its place in the list `inputs` of `trace.json`, from 0";
                frame: i64, Delta, "number of the frame within its input, from 1, as tshark counts";
                time_ns: Option<i64>, Delta, "when it arrived" null "the input gives no time, or one that \
                does not fit";
                wire_bytes: i64, Dictionary, "bytes on the wire";
                captured_bytes: i64, Dictionary, "bytes in the capture";
                source_address: Address, Dictionary, "IP source";
                destination_address: Address, Dictionary, "IP destination";
                source_port: Option<i32>, Dictionary, "source port";
                destination_port: Option<i32>, Dictionary, "destination port";
                transport: Word, Dictionary, "`tcp`, `udp`; another protocol: its number"
                    null "not an IP packet";
                tcp_sequence: Option<i64>, Delta, "TCP sequence number";
                tcp_acknowledgement: Option<i64>, Delta, "TCP acknowledgement number, valid if the flag \
                ACK is set";
                tcp_flags: Option<i32>, Dictionary, "TCP flags, bits: FIN 1, SYN 2, RST 4, PSH 8, ACK 16, \
                URG 32, ECE 64, CWR 128";
                tcp_window: Option<i32>, Dictionary, "TCP window as on the wire, not scaled";
                payload_bytes: Option<i64>, Dictionary, "bytes of TCP or UDP payload on the wire";
                connection_id: Option<i64>, Dictionary, "the connection, as in `connections`"
                    null "not part of a connection, or a duplicate";
                duplicate: bool, Dictionary, "another frame had just brought the same packet: it was \
                mirrored twice";
            }
            /// What monitors counted, as distributions: a row for each bin that is not empty. A
            /// monitor has a row for a value range of a metric, a point and, if it measures by
            /// flow, a flow.
            MonitorBins monitor_bins MonitorBinRow MonitorBinColumns null "all flows together" {
                monitor: Text, Dictionary, "the monitor, in the words that asked for it" null "never";
                port: Text, Dictionary, "where it measures: the interface, the side or the input"
                    null "never";
                point: Label, Dictionary, "`came`: frames as they arrived there; `left`: as they left \
                there; `dropped_loss`, `dropped_down`, `dropped_limit`, `dropped_rate`, `dropped_memory`, \
                `dropped_interface`, `dropped_switch`: frames that came there and were dropped, by reason"
                    null "never";
                metric: Label, Dictionary, "what is distributed, with its unit: `packet_bytes`, \
                `gap_ns`, `gap_decades_ns`, `burst_packets`, `burst_bytes`, `window_packets`, \
                `window_bytes`, `tcp_window_bytes`, `tcp_window_unscaled_bytes`, `flow_packets`, \
                `flow_bytes`, `flow_completion_ns`, `reordering_extent_packets`, `n_reordering_packets`, \
                or that of a monitor of your own" null "never";
                flow_id: Option<i64>, Dictionary, "the flow, as in `monitor_flows`, of a monitor by flow; \
                0: all flows that found no place in its table";
                bin_from: i64, Dictionary, "the lowest value that counts here";
                bin_to: i64, Dictionary, "the highest value that counts here";
                count: i64, Dictionary, "how many there were";
            }
            /// What passed in each window of time in which anything did. A window that is not there
            /// had nothing; two rows of one window are to be added, where stamps went back.
            MonitorWindows monitor_windows MonitorWindowRow MonitorWindowColumns null "all flows together" {
                monitor: Text, Dictionary, "the monitor, in the words that asked for it" null "never";
                port: Text, Dictionary, "where it measures: the interface, the side or the input"
                    null "never";
                point: Label, Dictionary, "as in `monitor_bins`" null "never";
                flow_id: Option<i64>, Dictionary, "the flow, as in `monitor_bins`";
                time_ns: Option<i64>, Delta, "where the window begins: a multiple of its length since the \
                epoch" null "never";
                window_ns: i64, Dictionary, "its length";
                packets: i64, Dictionary, "frames in it";
                bytes: i64, Dictionary, "their bytes on the wire, from the Ethernet header on, without \
                preamble, check sequence and gap";
            }
            /// One direction of a connection, or of an exchange of datagrams, at one point.
            MonitorFlows monitor_flows MonitorFlowRow MonitorFlowColumns null "not such a flow" {
                monitor: Text, Dictionary, "the monitor, in the words that asked for it" null "never";
                port: Text, Dictionary, "where it measures: the interface, the side or the input"
                    null "never";
                point: Label, Dictionary, "as in `monitor_bins`" null "never";
                flow_id: Option<i64>, Dictionary, "its number among the flows of this monitor at this \
                point, from 1 in the order of their first frames; 0: frames that are of no flow, and \
                those of flows that found no place in the table" null "never";
                source_address: Address, Dictionary, "who sends";
                destination_address: Address, Dictionary, "who receives";
                source_port: Option<i32>, Dictionary, "source port";
                destination_port: Option<i32>, Dictionary, "destination port";
                transport: Word, Dictionary, "`tcp`, `udp`; another protocol: its number";
                first_ns: Option<i64>, Delta, "when its first frame passed" null "no frame has a time";
                last_ns: Option<i64>, Delta, "when its last frame passed" null "no frame has a time";
                packets: i64, Dictionary, "its frames";
                bytes: i64, Dictionary, "their bytes on the wire, as in `monitor_windows`";
                payload_bytes: Option<i64>, Dictionary, "bytes of TCP or UDP payload on the wire";
                retransmitted_bytes: Option<i64>, Dictionary, "TCP: payload bytes that had passed here \
                before";
                reordered_packets: Option<i64>, Dictionary, "TCP: segments that begin before the next \
                expected byte and bring bytes that had not passed here (RFC 4737, 3); overtaken on the \
                way, or sent again for what was lost before this point: here these two look alike";
                reordering_extent_max: Option<i64>, Dictionary, "TCP: the largest reordering extent, in \
                segments with payload (RFC 4737, 4.2)" null "none was reordered";
                n_reordering_max: Option<i64>, Dictionary, "TCP: the largest n for which a segment was \
                n-reordered (RFC 4737, 5.4), 8 if more" null "none was reordered";
                tcp_window_scale: Option<i32>, Dictionary, "TCP: bits by which its windows are shifted \
                left (RFC 7323, 2)" null "its SYN was not seen: windows are those on the wire";
                tcp_window_min_bytes: Option<i64>, Dictionary, "TCP: the smallest receive window that it \
                announced";
                tcp_window_max_bytes: Option<i64>, Dictionary, "TCP: the largest receive window that it \
                announced";
                completion_ns: Option<i64>, Dictionary, "TCP: from its SYN to its FIN"
                    null "one of them was not seen";
                flow_end: Label, Dictionary, "`fin` or `rst`" null "its end was not seen";
            }
            /// What happened to a run while monitors measured.
            MonitorEvents monitor_events MonitorEventRow MonitorEventColumns null "not of one port" {
                time_ns: Option<i64>, Delta, "when" null "no frame has a time";
                event: Label, Dictionary, "`begin`: the first frame; `end`: the last one; `change`: \
                settings of the link were changed; `mark`: the text of `lineside ctl RUN mark` or of a step; \
                `step`, `undone`, `refused`: a step fired, its time was over, it was to fire and did not; \
                `unmeasured`: frames found no room on their way to the monitors, which do not count them"
                    null "never";
                port: Text, Dictionary, "where";
                frames: Option<i64>, Dictionary, "how many frames it is about" null "of no frames";
                text: Text, Dictionary, "in words" null "nothing to add";
            }
        }
    };
}

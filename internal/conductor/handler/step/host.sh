# Waybill's half on a host: what must be atomic there. POSIX sh; program.go says who calls it and how.
#   sh host-<digest of this file> FOLDER VERB [key=value …] [-- WORD …]         FOLDER is <root>/<service>
# Results are lines key=value on standard output, done=VERB the last, reasons are on standard error. Exit status: 0 done;
# 64 wrong use; 65 refused by the fence; 66 the release is not here; 70 not ready,
# taken back; 71 a hook failed; 73 the disk or a tool failed; 74 the old service does not end; 75 busy; 76 damaged content.
# Names from outside are never the first word of an argument: they follow a folder, "--" or "=".
set -u && umask 022 && unset TAR_OPTIONS TAPE GZIP GREP_OPTIONS CDPATH # what these set damages releases
trap : HUP PIPE # the caller may go away, the work goes on to a safe point; not '', which services would inherit
tab=$(printf '\t') step=1

die() { printf '%s\n' "$2" >&2; record "$1" "$2"; exit "$1"; } # STATUS REASON
has() { command -v "$1" >/dev/null 2>&1; }
nap() { sleep 0.1 2>/dev/null || { step=10 && sleep 1; }; } # a tenth of a second where sleep knows fractions
sums() { if has sha256sum; then LC_ALL=C sha256sum "$@"; else LC_ALL=C shasum -a 256 "$@"; fi; }
digest() { line=$(sums <"$1") && printf '%s\n' "${line%% *}"; }
# WORD…: in a session and process group of its own, whose id is the program's
own() { ! has setsid || exec setsid -- "$@" && exec perl -e 'use POSIX; POSIX::setsid(); exec @ARGV or exit 127' -- "$@"; }
replace() { # FROM TO: atomic, also where TO is a link to a folder
	mv -fT "$1" "$2" 2>/dev/null || mv -fh "$1" "$2" 2>/dev/null ||
		perl -e 'rename($ARGV[0], $ARGV[1]) or die "rename: $!\n"' -- "$1" "$2" || die 73 "rename $1 to $2"
}

# FROM TO: the content and the name survive a power loss
keep() { sync "$1" && replace "$1" "$2" && sync "${2%/*}" || die 73 "store $2"; }
save() { cat >"$1.new" && keep "$1.new" "$1" || die 73 "write $1"; } # FILE: standard input becomes its content
# FILE: it gets `bytes` of standard input, no fewer: a caller may have died while sending
take() { cat >"$1" && [ "$(wc -c <"$1")" -eq "$bytes" ] || die 73 "store what is received"; }

# ---- locks: each dies with the processes that hold it
try() { if has flock; then flock -n "$@"; else shift $(($# - 1)) && lockf -s -t 0 "$1"; fi; }
# FD: somebody who only looks may hold it for a moment
grab() { tries=0 && until try "$1"; do [ "$tries" -lt 50 ] && nap && tries=$((tries + step)) || return 1; done; }
held() { [ -e "$1" ] && ! (exec 6<"$1" && try -s 6) 2>/dev/null; }

lock() {
	has flock || has lockf || die 73 "flock: not found on this host any more"
	exec 9>>.waybill/lock || die 73 "open the lock"
	waited=0 && until try 9 2>/dev/null; do
		[ "$waited" -lt 150 ] || { echo "another command for this service still runs on the host" >&2; exit 75; }
		nap && waited=$((waited + step))
	done
	echo entered=1 2>/dev/null && locked=1 || exit 75 # the caller no longer listens
}
# LINK: the release that it names; nothing when it is not there
target() { [ ! -L "$1" ] || { link=$(readlink "$1") && printf '%s\n' "${link#releases/}"; } || exit; }
known() { # what the supervisor wrote, or systemd says
	run_supervisor=0 run_service=0 run_restarts=0 run_started=0 run_release='' run_unit='' run_exit='' lent=''
	[ ! -f .waybill/state ] || read -r run_supervisor run_service run_restarts run_started run_release run_unit run_exit <.waybill/state || :
	case $run_supervisor$run_service in *[!0-9]*) die 73 "$PWD/.waybill/state is not of this version of Waybill: end the service by hand and remove it" ;; esac
	held .waybill/supervisor || observed || :
}
# writes what known reads
state() { echo "$$ $child $restarts $started $release $unit $code" >.waybill/state.new && mv -f .waybill/state.new .waybill/state; }
alive() { # RELEASE UNIT: the supervisor runs exactly these, and the service is up
	supervised && known && [ "$run_release" = "$1" ] && [ "$run_unit" = "$2" ] &&
		[ "$run_service" -ne 0 ] && { [ -n "$lent" ] || { { [ ! -e .waybill/started ] || [ -s .waybill/started ]; } && held .waybill/service; }; }
}
record() { # STATUS TEXT: what became of the action, for an attempt whose answer gets lost; without the lock a newer one may be at work
	outcome="$1: $2" && [ -n "$locked" ] && [ -n "$action" ] && [ -d .waybill/results ] || return 0
	printf 'attempt=%s\nstatus=%s\ntext=%s\n' "$attempt" "$1" "$2" >".waybill/results/$action.new" &&
		mv -f ".waybill/results/$action.new" ".waybill/results/$action"
}
audit() { # EVENT: `began`, or how the verb ended; a date that does not know %3N has seconds only
	now=$(date -u +%Y-%m-%dT%H:%M:%S.%3NZ) && case $now in *.[0-9][0-9][0-9]Z) ;; *) now=${now%%.*}Z ;; esac
	printf '%s\n' "$now $verb ${action:--} $rank ${release:--} $(printf '%s\n' "$1" | head -n 1) ($name)" 2>/dev/null >>.waybill/audit || : # what cannot be written is dropped
}
# enter begins every verb that changes a release or runs something. Under the lock it refuses what an older deployment, an
# older attempt or another ledger asks.
enter() {
	missing=$(needs) && [ -z "$missing" ] || die 73 "$(printf '%s\n' "$missing" | sed 's/^lacks=//'): not found on this host any more"
	lock
	their_rank=-1 their_name=
	if [ -e .waybill/fence ]; then
		read -r their_ledger their_rank their_name <.waybill/fence && [ "$their_rank" -ge 0 ] 2>/dev/null ||
			die 73 "$PWD/.waybill/fence is damaged: if no other deployment uses this folder, remove the file"
		[ "$their_ledger" = "$ledger" ] || refuse "$their_name of another ledger was here; to take the host over: waybill pipeline trust --take-over"
		[ "$their_rank" -le "$rank" ] || refuse "$their_name was here; if the log was restored from an older backup, or that pipeline gave the service up, remove $PWD/.waybill/fence"
	fi
	result=.waybill/results/$action
	if [ -n "$action" ] && mkdir -p .waybill/results; then
		former=$([ ! -f "$result" ] || sed -n '1s/^attempt=//p' "$result") || die 73 "read the action's result"
		[ "${former:-0}" -le "$attempt" ] || refuse "attempt $former was here after attempt $attempt"
		{ echo "attempt=$attempt" && { [ ! -f "$result" ] || sed 1d "$result"; } } >"$result.new" && mv -f "$result.new" "$result" ||
			die 73 "note the attempt"
	fi
	[ "$their_rank $their_name" = "$rank $name" ] || { echo "$ledger $rank $name" | save .waybill/fence || exit; [ "$their_rank" -lt 0 ] || echo "passed=$their_rank $their_name"; }
}
ours() { # pipeline `name` of this ledger was here last, or the host was taken over for the ledger, or nothing was here
	! read -r their_ledger their_rank their_name 2>/dev/null <.waybill/fence || case "$their_ledger $their_name" in
	"$ledger $name#"* | "$ledger taken over by "*) ;; *) die 65 "$their_name of another pipeline or ledger was here; to take the host over: waybill pipeline trust --take-over" ;; esac
}
adopt() { lock; echo "$ledger 0 $name" | save .waybill/fence && record 0 "taken over"; } # for another ledger
refuse() { action='' && die 65 "$1"; } # what the newer one recorded stays
pending() { # a switch is not final; sets what to go back to
	[ -f .waybill/revert ] || return 1
	read -r armed former older token <.waybill/revert || die 73 "read .waybill/revert"
	former=${former#-} older=${older#-}
}
used() { # RELEASE: it is current or previous, or runs, or is what a switch that was cut off goes back to
	former='' older='' && known && at=$(target current) && before=$(target previous) && { pending || :; } || die 73 "find out which releases are in use"
	! supervised || [ -n "$run_release" ] || exit 75 # it has just started, and is about to say of which release
	case $1 in "$at" | "$before" | "$run_release" | "$former" | "$older") return 0 ;; esac
	return 1
}

# ---- content and releases. A manifest has lines KIND SIZE DIGEST PATH [TARGET], tabs between: f a file, x an executable
# ---- one, d a folder, l a link; p, q and r are f, x and d that are not for others. In cas a content is its digest and its
# ---- kind, which f leaves out: a hard link shares its mode.
# Loops of read would take a system call for each byte, so these compare sorted lists, whose lines are in a list once.
sorted() { LC_ALL=C sort -u >".waybill/$1"; } # LIST
only() { LC_ALL=C sort "$1" "$2" "$2" | LC_ALL=C uniq -u; } # A B: lines of A that B lacks
both() { LC_ALL=C sort "$1" "$2" | LC_ALL=C uniq -d; } # A B
seek() { find "$@" || [ $? -ne 127 ] || die 73 "find: not found"; } # what may not be read is not there
kinds() { # FOLDER: every entry in it, as KIND PATH
	for kind in 'd -type d -perm -001' 'r -type d ! -perm -001' 'l -type l' 'f -type f ! -perm -100 -perm -004' \
		'x -type f -perm -100 -perm -004' 'p -type f ! -perm -100 ! -perm -004' 'q -type f -perm -100 ! -perm -004'; do
		(cd "$1" && seek . ${kind#?}) >.waybill/kind && sed "s/^/${kind%% *} /" .waybill/kind || exit
	done
}
lacking() { # MANIFEST: names of the contents that cas lacks; damaged ones are thrown away
	LC_ALL=C sed -n "s/^\([fxpq]\)$tab[^$tab]*$tab\([^$tab]*\).*/\2\1/p" "$1" | sed 's/f$//' | sorted wanted
	kinds cas >.waybill/list || exit
	LC_ALL=C sed -n 's,^f \./\([0-9a-f]*\)$,\1,p; s,^\([xpq]\) \./\([0-9a-f]*\1\)$,\2,p' .waybill/list | sorted found
	only .waybill/wanted .waybill/found
	both .waybill/wanted .waybill/found | sed 's,^\([0-9a-f]*\)[xpq]*$,\1  cas/&,' >.waybill/list
	[ -s .waybill/list ] || return 0
	sums -c .waybill/list 2>/dev/null | sed -n '/: OK$/!s,^cas/\([0-9a-f]*[xpq]*\): .*,\1,p' | while read -r sum; do rm -f "cas/$sum" && echo "$sum" || exit; done
}
whole() { # FOLDER MANIFEST: every entry is there and has its content; no release is empty
	[ -s "$2" ] || return 1
	list=$PWD/.waybill/list
	LC_ALL=C sed "s/^\(.\)$tab[^$tab]*$tab[^$tab]*$tab\([^$tab]*\).*/\1 .\/\2/" "$2" | sorted wanted
	kinds "$1" >"$list" || exit
	sorted found <"$list"
	[ -z "$(only .waybill/wanted .waybill/found | head -n 1)" ] || return 1
	grep '^l' "$2" | while IFS=$tab read -r kind size sum path target; do [ "$(readlink "$1/$path")" = "$target" ] || exit; done || return 1
	LC_ALL=C sed -n "s/^[fxpq]$tab[^$tab]*$tab\([^$tab]*\)$tab\(.*\)/\1  .\/\2/p" "$2" >"$list"
	[ ! -s "$list" ] || (cd "$1" && sums -c "$list" >/dev/null 2>&1)
}
# present MANIFEST: the release is there and whole. One in use whose files have changed is never replaced: it gets another
# folder beside, whose name .waybill/beside has from now on.
present() {
	if [ -d "releases/$release" ] && whole "releases/$release" "$1"; then sync releases || die 73 "sync releases"; return 0; fi
	used "$release" || return 1 # a version of this program that made all files for others may have made it
	[ ! -d "releases/$release" ] || ! whole "releases/$release" ".waybill/manifests/$release" || return 0
	n=2 && while used "$asked.$n"; do n=$((n + 1)); done
	release=$asked.$n && mkdir -p .waybill/beside && echo "$release" | save ".waybill/beside/$asked" || die 73 "name a folder for the release"
	return 1
}
folders() { asked=$release && [ ! -f ".waybill/beside/$release" ] || read -r release <".waybill/beside/$release" || die 73 "read .waybill/beside"; }
verify() { # names files of the current release that are not those of its artifact
	lock
	release=$(target current) && manifest=.waybill/manifests/$release && [ -s "$manifest" ] || return 0
	! whole "releases/$release" "$manifest" || return 0
	{
		only .waybill/wanted .waybill/found | sed 's,^. \./,,'
		grep '^l' "$manifest" | while IFS=$tab read -r kind size sum path target; do [ "$(readlink "releases/$release/$path")" = "$target" ] || printf '%s\n' "$path"; done
		LC_ALL=C sed -n "s/^[fxpq]$tab[^$tab]*$tab\([^$tab]*\)$tab\(.*\)/\1  .\/\2/p" "$manifest" >"$list"
		[ ! -s "$list" ] || (cd "releases/$release" && sums -c "$list" 2>/dev/null) | sed -n '/: OK$/!s,^\./\(.*\): .*,\1,p'
	} | LC_ALL=C sort -u | head -n 20 | sed 's/^/changed=/'
}

replicate() { # manifest on standard input; says what must be sent
	mkdir -p .waybill/manifests .waybill/units .waybill/results releases shared cas || die 73 "make the folders of the service"
	take ".waybill/manifests/.new.$$"
	enter
	if present ".waybill/manifests/.new.$$"; then rm -f ".waybill/manifests/.new.$$"; echo state=present; return; fi
	manifest=.waybill/manifests/$release
	keep ".waybill/manifests/.new.$$" "$manifest"
	lacking "$manifest" >.waybill/lacking || die 73 "list what is lacking"
	set -- $(df -Pk . | tail -n 1) && printf '%s\n' state=lacking "free=$4" && sed 's/^/lacks=/' .waybill/lacking # free in KiB
	for part in .waybill/parts/*; do [ ! -f "$part" ] || echo "has=${part##*/} $(wc -c <"$part")"; done
}
part() { # NAME: the rest of one large content from `offset` on, on standard input; what came before a break is kept
	umask 077 && enter
	mkdir -p .waybill/parts && part=.waybill/parts/$1 && touch "$part" || die 73 "make $PWD/.waybill/parts"
	[ "$offset" -ne 0 ] || : >"$part"
	[ "$(wc -c <"$part")" -eq "$offset" ] || die 76 "the part of $1 changed meanwhile"
	cat >>"$part" || die 73 "store what is received"
	[ "$(wc -c <"$part")" -ge "$bytes" ] || die 76 "$1 did not arrive whole"
	[ "$(digest "$part")" = "${1%[xpq]}" ] || { rm -f "$part" && die 76 "$1 was damaged on its way"; }
	case $1 in *x) chmod 555 "$part" ;; *p) chmod 400 "$part" ;; *q) chmod 500 "$part" ;; *) chmod 444 "$part" ;; esac && keep "$part" "cas/$1"
}
# receive makes the release: aside, verified, synced, renamed. On standard input is a tar.gz of the contents that cas lacks,
# in .waybill/incoming, and of the release in releases/.new: folders, symbolic links, and hard links to contents there and in
# cas. So tar makes all of it, where ln would be a process for each file.
receive() {
	enter
	manifest=.waybill/manifests/$release fresh=releases/.new
	if present "$manifest"; then echo state=present; return; fi
	manifest=.waybill/manifests/$release
	rm -rf .waybill/incoming "$fresh" releases/.old && mkdir .waybill/incoming "$fresh" && tar -xmozf - || die 73 "unpack what is received"
	whole "$fresh" "$manifest" || die 76 "release $release was damaged on its way"
	durable .waybill/incoming -type f && durable "$fresh" -type d && find .waybill/incoming -type f -exec sh -c 'mv -f "$@" cas/' mv {} + &&
		sync cas || die 73 "store what was received"
	[ ! -d "releases/$release" ] || mv "releases/$release" releases/.old || die 73 "put the damaged release $release aside"
	mv "$fresh" "releases/$release" && sync releases || die 73 "name release $release"
	rm -rf releases/.old .waybill/incoming
	echo state=built
}
# FOLDER PREDICATE…: what find finds there survives a power loss. Each of many files would wait for the disk by itself
durable() { { [ "$(find "$@" | wc -l)" -gt 100 ] && sync -f "$1" 2>/dev/null; } || find "$@" -exec sync {} +; }

prune() { # old releases and what only they had; never current, previous, running or the one of this deployment
	ls -t releases | while read -r old; do
		! used "$old" || continue
		keep=$((keep - 1))
		[ "$keep" -ge 2 ] || [ "$old" = "$release" ] || rm -rf "releases/$old" ".waybill/manifests/$old" ".waybill/units/$old" ".waybill/units/$old.before"
	done
	for name in .waybill/beside/*; do [ ! -f "$name" ] || { read -r old <"$name" && [ -d "releases/$old" ]; } || rm -f "$name"; done
	find cas -type f -links 1 -exec rm -f {} +
	rm -rf .waybill/parts
	ls -t .waybill/results | tail -n +101 | while read -r old; do rm -f ".waybill/results/$old"; done
	find .waybill \( -name 'host-*' ! -name "${program##*/}" -o -name '.new.*' -mtime +1 \) -exec rm -f {} +
	[ "$(wc -l <.waybill/audit)" -lt 2000 ] || { tail -n 1000 .waybill/audit >.waybill/audit.new && mv -f .waybill/audit.new .waybill/audit; }
}

# ---- services. A unit is a shell file that defines service, before and after. The supervisor holds .waybill/supervisor,
# ---- and all that the service starts holds .waybill/service: so it is known when the last of it has ended.
finish() { # GROUP [LOCK]: SIGTERM, ten seconds, SIGKILL; ended when nobody holds the lock
	n=0 # a group begins a moment after its process
	until kill -TERM "-$1" 2>/dev/null; do [ "$n" -lt 5 ] && nap && n=$((n + step)) || return 0; done
	while [ "$n" -lt 100 ] && kill -0 "-$1" 2>/dev/null && { [ -z "${2-}" ] || held "$2"; }; do nap && n=$((n + step)); done
	kill -KILL "-$1" 2>/dev/null
}

supervise() { # runs the service of a release until SIGTERM
	exec 8>>.waybill/supervisor && grab 8 || exit 75
	unit=$(digest ".waybill/units/$release") restarts=0 delay=1 child=0 code='' started=0
	trap retire TERM; state
	[ ! -f .waybill/log ] || mv -f .waybill/log .waybill/log.1
	while :; do
		(outlet)
		started=$(date +%s)
		exec 7>>.waybill/service && grab 7
		: >.waybill/started # the service's own shell says when it begins: under load that may be long after now
		own sh -c 'cd "$2" && . "$1" && { date +%s >"$3"; service; }' "$name" "$PWD/.waybill/units/$release" "$PWD/releases/$release" "$PWD/.waybill/started" \
			8>&- </dev/null >.waybill/out 2>&1 &
		child=$!
		exec 7>&-; state
		wait "$child"; code=$? restarts=$((restarts + 1))
		kill -KILL "-$child" 2>/dev/null # what it left behind would be in the way of the next
		strays KILL
		child=0
		[ $(($(date +%s) - started)) -lt 60 ] || delay=1
		state
		sleep "$delay" 8>&- &
		wait "$!"
		delay=$((delay < 30 ? delay * 2 : 60))
	done
}
retire() { # the supervisor was asked to stop
	trap '' TERM
	if [ "$child" -ne 0 ]; then
		(exec 8>&- && finish "$child" .waybill/service) & # exec, since a shell keeps a copy of what it closes for a function
		wait "$child"
		wait "$!"
	fi
	rm -f .waybill/state; exit 0
}
outlet() { # what is printed to the pipe .waybill/out is kept from now on, until the last that prints there has ended
	[ -p .waybill/out ] || mkfifo -m 600 .waybill/out || exit 73
	own sh "$program" "$PWD" collect </dev/null >/dev/null 2>&1 7>&- 8>&- &
}
collect() { # log is moved to log.1 at 8 MiB, and made again when it was removed, after a few reads
	exec <.waybill/out # waits for a service that prints; one that never starts leaves it to SIGTERM
	trap '' TERM # systemd ends all of a service at once, and its last lines come after that
	while :; do # a full disk keeps no service waiting: what cannot be written is dropped
		read_in=$(LC_ALL=C dd bs=65536 count=8 2>&1 >>.waybill/log) || read_in=$(LC_ALL=C dd bs=65536 count=8 2>&1 >/dev/null)
		case $read_in in 0+0*) return ;; esac
		[ ! -f .waybill/log ] || [ "$(wc -c <.waybill/log)" -lt 8388608 ] || mv -f .waybill/log .waybill/log.1
	done
}
start() { # RELEASE
	rm -f .waybill/state # the numbers of one that was killed mean nothing
	if planned ".waybill/units/$1"; then plant "$1"; return; fi
	own sh "$program" "$PWD" supervise "release=$1" "name=${PWD##*/}" </dev/null >/dev/null 2>&1 9>&- &
	tries=0 && until held .waybill/supervisor || [ "$tries" -ge 150 ]; do nap && tries=$((tries + step)); done # by this halt finds it
}
strays() { # SIGNAL: sends it to what still holds .waybill/service, as 7: also what the service started in sessions of its own
	if [ -d /proc/self/fd ]; then
		for open in /proc/[0-9]*/fd/7; do [ ! "$open" -ef .waybill/service ] || { open=${open#/proc/} && kill "-$1" "${open%%/*}"; }; done
	else
		for open in $(lsof -t .waybill/service); do kill "-$1" "$open"; done
	fi 2>/dev/null
}
halt() { # [RELEASE]: ends the supervisor, the service, and all that it started; a unit that RELEASE lends stays
	uproot "$([ -z "${1-}" ] || lender ".waybill/units/$1")"; waited=0 asked= signal=TERM
	while held .waybill/supervisor || held .waybill/service; do
		known
		if ! held .waybill/supervisor; then
			[ "$run_service" -eq 0 ] || finish "$run_service" .waybill/service
			[ "$waited" -lt 100 ] || signal=KILL
			[ -z "$signal" ] || strays "$signal"; signal=
		elif [ "$run_supervisor" -ne 0 ]; then
			[ -n "$asked" ] || kill -TERM "$run_supervisor" 2>/dev/null
			[ "$waited" -lt 120 ] || kill -KILL "$run_supervisor" 2>/dev/null; asked=1
		fi
		[ "$waited" -lt 150 ] || die 74 "the service does not end: a process that it started still holds $PWD/.waybill/service; end it on the host"
		nap && waited=$((waited + step))
	done
}
ready() { # RELEASE UNIT: up since its program was started, for `hold` tenths of a second without a restart, at the latest `within` from now
	waited=0 good=0 seen= lap=0 over=0 began=$(date +%s)
	while [ $((within - waited)) -ge $((hold - good - lap)) ] && ! withdrawn; do
		alive "$1" "$2" || run_service=
		if [ -n "$run_service" ] && [ "$run_service" = "$seen" ]; then good=$((good + lap)); else seen=$run_service good=0; fi
		[ -z "$seen" ] || [ "$good" -lt "$hold" ] || return 0
		nap && lap=$step over=$((($(date +%s) - began - 1) * 10 - waited - step)) # on a busy host a nap is longer
		if [ "$over" -gt 100 ]; then began=$((began + (over - 100) / 10)) over=100; fi # the clock was set
		[ "$over" -lt 0 ] || lap=$((lap + over))
		waited=$((waited + lap))
	done
	return 1
}

# ---- the switch
point() { # LINK RELEASE: by renaming a fresh link; without a release it goes
	if [ -z "$2" ]; then rm -f "$1" || die 73 "remove the link $1"; return; fi
	rm -f ".waybill/$1.new" && ln -s "releases/$2" ".waybill/$1.new" || die 73 "make the link $1"
	replace ".waybill/$1.new" "$1"
}
bounded() { # OUTPUT WORD…: in the release, for at most `limit` seconds; sets code; the last MiB of its output stays
	output=$PWD/$1 && shift && true >"$output" || die 73 "write $output"
	(cd "releases/$release" && own "$@") </dev/null >>"$output" 2>&1 9>&- &
	child=$!; guard "$child" >/dev/null 2>&1 </dev/null &
	wait "$child"; code=$?
	kill -KILL "$!" 2>/dev/null
	[ "$(wc -c <"$output")" -le 1048576 ] || { tail -c 1048576 "$output" >"$output.new"; mv -f "$output.new" "$output"; }
}
guard() { # GROUP: ends it at the limit, empties an output of 64 MiB; holds the lock meanwhile, even when this program is killed
	while kill -0 "$1" 2>/dev/null || kill -0 "-$1" 2>/dev/null; do
		[ "$(wc -c <"$output")" -lt 67108864 ] || true >"$output"
		[ "$limit" -gt 0 ] || finish "$1"
		sleep 1 9>&-; limit=$((limit - 1))
	done
}
hook() { # NAME
	[ "${hooks#*"$1"}" != "$hooks" ] || return 0
	bounded .waybill/hook sh -c '. "$1" && "$2"' hook "$PWD/.waybill/units/$release" "$1"
	[ "$code" -eq 0 ] || die 71 "hook $1 ended with exit status $code: $(tail -n 10 .waybill/hook)"
}
same() { [ -f ".waybill/units/$release" ] && [ "$(digest ".waybill/units/$release")" = "$wanted" ]; }
settled() { # this release runs with this unit, and has for as long as `ready` asks
	if [ "$manager" != process ] || { [ "$restart" != restart ] && supervised; }; then return 0; fi
	alive "$release" "$wanted" || return 1
	[ ! -s .waybill/started ] || read -r run_started <.waybill/started || return 1
	[ $(($(date +%s) - run_started)) -gt $((hold / 10)) ] || ready "$release" "$wanted"
}

# The file revert says that a switch is not final, and what to go back to. With `confirm` the switch stays so until the
# verb confirm: the caller tries the service first. After that many seconds, unless 0, the host goes back by itself.
deploy() { # the unit on standard input; further words are the shared names
	(umask 077 && mkdir -p .waybill/units && take ".waybill/units/.new.$$") || exit 73
	wanted=$(digest ".waybill/units/.new.$$") || die 73 "read the unit"
	! planned ".waybill/units/.new.$$" || plantable "$(lender ".waybill/units/.new.$$")"
	enter
	[ -d "releases/$release" ] || die 66 "release $release is not on the host"
	[ -z "$action" ] || [ "$(sed -n 2p "$result")" != status=77 ] || die 70 "$(sed -n 's/^text=//p' "$result")" # news for the caller
	rm -f .waybill/withdrawn # for another action
	at=$(target current) && older=$(target previous) || die 73 "read the links"
	former=$at armed=
	pending || : # unless an attempt was cut off on its way
	if [ "$at" = "$release" ] && [ -z "$armed" ] && same && settled; then
		rm -f ".waybill/units/.new.$$"; record 0 "already runs"; echo already=1; return
	fi
	[ "$manager" != process ] || [ -n "$armed" ] || [ "$within" -ge "$hold" ] ||
		die 70 "nothing was switched: ready.for is $((hold / 10)).$((hold % 10)) s, and $((within / 10)).$((within % 10)) s are left"
	token=$$-$(date +%s) && prune # also here, since many that fail may follow each other
	echo "armed -$former -$older $token" | save .waybill/revert || exit
	if [ "$at" != "$release" ] || ! same; then
		[ "$at" != "$release" ] || { cp -p ".waybill/units/$release" ".waybill/units/$release.before" && sync ".waybill/units/$release.before"; } || die 73 "keep the unit"
		keep ".waybill/units/.new.$$" ".waybill/units/$release"
		share "$@"
		if [ "$at" != "$release" ]; then
			hook before
			[ "$former" = "$release" ] || point previous "$former"
			point current "$release"
		fi
	fi
	sync . || die 73 "sync the switch" # also one that an attempt before this one made, and did not live to sync
	[ "${confirm:-0}" -eq 0 ] || own sh "$program" "$PWD" await "name=$token" "limit=$confirm" "release=$release" "manager=$manager" \
		"action=$action" "attempt=$attempt" "hooks=$hooks" </dev/null >/dev/null 2>&1 9>&- &
	if [ "$manager" = process ]; then launch; else halt; fi
	echo already=0
	if [ -n "$confirm" ]; then echo armed=1; else settle; fi
}
settle() { # the switch is final
	hook after
	rm -f .waybill/revert ".waybill/units/$release.before" ".waybill/units/.new.$$" && sync .waybill || die 73 "end the switch"
	record 0 "deployed"
	prune
}
# armed ends with 70 unless the switch to the release is not final yet
armed() { pending && [ "$(target current)" = "$release" ] || die 70 "reverted by the host before it was confirmed"; }
confirm() { # the caller has found the service good
	enter
	if [ ! -f .waybill/revert ] && [ "$(target current)" = "$release" ]; then return 0; fi # the answer to an earlier one was lost
	armed
	[ "$manager" != process ] || [ "$restart" != restart ] || alive "$release" "$(digest ".waybill/units/$release")" ||
		go_back "the service ended before the switch was confirmed"
	settle
}
back() { enter; armed; go_back "the checks of ready did not pass"; } # the caller has found it bad
withdraw() { # the caller has no more time: what the action has switched, or is switching, is taken back unless it is final
	echo "$action" >.waybill/withdrawn # deploy looks at it, and holds the lock
	enter
	if pending && [ "$(target current)" = "$release" ]; then (go_back "withdrawn: its time was over") || [ $? -eq 70 ] || exit; echo state=back
	elif [ "$(target current)" = "$release" ]; then echo state=final
	else printf '%s\n' state=back "reverted=$(target current)"; fi
	rm -f .waybill/withdrawn
}
withdrawn() { [ -n "$token" ] && [ -f .waybill/withdrawn ] && read -r gone <.waybill/withdrawn && [ "$gone" = "$action" ]; }
await() { # goes back after `limit` seconds unless somebody has confirmed, or switched again
	sleep "$limit"
	[ -f .waybill/revert ] || exit 0
	exec 9>>.waybill/lock && until try 9 2>/dev/null; do sleep 1; done && locked=1
	pending && [ "$token" = "$name" ] || exit 0
	expired=77
	go_back "reverted by the host: not confirmed within $limit seconds"
}
launch() {
	known && run=$release unit=$wanted
	if [ "$restart" != restart ] && supervised; then
		run=$run_release unit=$run_unit
		if [ "$restart" = reload ] && [ -n "$lent" ]; then
			ctl reload "$lent" || go_back "systemctl cannot reload $lent"
			run=$release unit=$wanted && echo "$lent $run $unit" | save .waybill/lent || exit
		elif [ "$restart" = reload ] && [ "$run_service" -ne 0 ]; then
			kill -HUP "$run_service"
		fi
	elif ! alive "$release" "$wanted"; then
		halt "$release" && start "$release" || go_back "systemctl cannot restart $lent"
	fi
	ready "$run" "$unit" || { ! withdrawn || go_back "withdrawn: its time was over"; known && go_back "$(unready)"; }
}
unready() { # after known
	if [ "${run_service:-0}" -ne 0 ] && [ "$run_restarts" -eq 0 ]; then
		echo "the service was not up for $((hold / 10)).$((hold % 10)) s without a break within $((within / 10)).$((within % 10)) s"
	else
		echo "the service did not stay up: $run_restarts restarts, last exit status ${run_exit:-none}"
	fi
}
go_back() { # REASON: what did not become ready is taken back at once
	known
	printf '%s\n' "reverted=$former" "restarts=$run_restarts"
	said
	[ "$former" != "$release" ] || [ ! -f ".waybill/units/$release.before" ] || keep ".waybill/units/$release.before" ".waybill/units/$release"
	halt "$former"
	point current "$former" && point previous "$older" && sync .
	[ "$manager" != process ] || [ -z "$former" ] || [ ! -f ".waybill/units/$former" ] || start "$former" || :
	rm -f .waybill/revert
	[ -z "$former" ] || (release=$former && hook after) 2>/dev/null || : # such as one that rejoins a load balancer
	die "${expired:-70}" "$1"
}
share() { # PATH…: links them from shared/ into the release
	for path; do
		case $path in */*) mkdir -p "releases/$release/${path%/*}" && sync "releases/$release/${path%/*}" || die 73 "make a folder for $path" ;; esac
		[ ! -L "releases/$release/$path" ] || continue
		[ ! -e "releases/$release/$path" ] || die 73 "release $release has $path itself, so it cannot be shared"
		mkdir -p "shared/$path" && ln -s "$PWD/shared/$path" "releases/$release/$path" &&
			sync shared "releases/$release" || die 73 "link shared/$path"
	done
}

# ---- the other verbs
say() { tail -c 200000 "$1" 2>/dev/null | tail -n 100 | sed 's/^/log=/'; } # FILE: its last lines
run() { # PATH… WORD…: an own step or a check, with the `links` first paths of the release shared; its environment is a script on
	# standard input. Its success is kept, so that one whose answer got lost is not run again
	enter
	[ -d "releases/$release" ] || die 66 "release $release is not on the host"
	if [ -n "$action" ] && [ "$(sed -n 2p "$result")" = status=0 ]; then echo exit=0; return; fi
	environment=$PWD/.waybill/.new.$$ && (umask 077 && take "$environment") || exit
	while [ "$links" -gt 0 ]; do share "$1" && shift && links=$((links - 1)) || exit; done
	bounded .waybill/output sh -c '. "$1" && shift && exec "$@"' sh "$environment" "$@"
	rm -f "$environment"
	record "$code" "$1"
	echo "exit=$code"
	say .waybill/output
}
status() {
	known
	printf '%s\n' "current=$(target current)" "previous=$(target previous)"
	[ ! -s .waybill/fence ] || echo "fence=$(cat .waybill/fence)"
	[ ! -f .waybill/revert ] || echo armed=1
	! held .waybill/lock || echo busy=1
	if held .waybill/service || { [ -n "$lent" ] && [ "$run_service" -ne 0 ]; }; then printf '%s\n' "service=$run_service" "started=$run_started"; fi
	! supervised || printf '%s\n' "supervisor=$run_supervisor" "restarts=$run_restarts" "exit=$run_exit"
	if supervised || held .waybill/service; then printf '%s\n' "release=$run_release" "unit=$run_unit"; fi
}
needs() { # what this program needs and the host lacks
	for tool in tar df gzip find sed grep head tail sort uniq sync readlink dd mkfifo; do has "$tool" || echo "lacks=$tool"; done
	has sha256sum || has shasum || echo "lacks=sha256sum or shasum"
	has flock || has lockf || echo "lacks=flock or lockf"; has setsid || has perl || echo "lacks=setsid or perl"
}
install() { # this file becomes `name`, unless the host lacks what it needs
	lacks=$(needs) && [ -z "$lacks" ] || { printf '%s\n' "$lacks" && rm -f "$program"; return 0; }
	keep "$program" ".waybill/${name##*/}" && sync . || die 73 "sync $PWD"
	sync .. ../.. 2>/dev/null || : # folders of others, which this user may not be allowed to open
}
restart() { # the service of the current release, with the unit that it has, as long as nothing else is at work
	lock
	result=.waybill/results/$action
	case $(sed -n 2p "$result" 2>/dev/null) in
	status=0) return ;; # the answer to an earlier attempt was lost
	status=70) action='' && die 70 "$(sed -n 's/^text=//p' "$result")" ;;
	esac
	ours
	[ ! -f .waybill/revert ] || die 65 "a switch on the host is not final yet"
	release=$(target current) && grep -q -e '^service() {' -e '^# systemd ' ".waybill/units/$release" 2>/dev/null || die 66 "no service was deployed to $PWD"
	wanted=$(digest ".waybill/units/$release") && halt "$release"
	start "$release" && ready "$release" "$wanted" || { known; said; die 70 "$(unready)"; }
	record 0 "restarted"
}
stop() { lock; ours; halt; rm -f .waybill/revert; record 0 "stopped"; }

folder=$1 verb=$2 && shift 2
action= attempt=0 locked= release= ledger=- rank=0 name=- manager=none restart=restart hold=0 within=0 keep=5 limit=600 bytes=0 hooks= confirm= offset=0 links=0 outcome= token=
while [ $# -gt 0 ]; do
	case $1 in
	--) shift && break ;;
	action=* | attempt=* | release=* | ledger=* | rank=* | name=* | manager=* | restart=* | hold=* | within=* | keep=* | limit=* | bytes=* | hooks=* | confirm=* | offset=* | links=*)
		eval "${1%%=*}=\${1#*=}" ;;
	*) die 64 "unknown argument $1" ;;
	esac
	shift
done
cd "$folder" && program=$PWD/.waybill/${0##*/} || die 73 "enter $folder"
case $verb in status | replicate | part | receive | deploy | confirm | back | withdraw | run) folders ;; *) asked=$release ;; esac
case $verb in status | collect) ;; *) audit began && trap 'code=$? && [ "$code" -eq 0 ] || outcome=$code${outcome:+: ${outcome#*: }}; audit "status ${outcome:-0}"' 0 ;; esac
case $verb in adopt | install | status | replicate | part | receive | deploy | confirm | back | withdraw | await | run | supervise | serve | collect | stop | restart | verify) "$verb" "$@" ;; *) die 64 "unknown verb $verb" ;; esac || exit
case $verb in restart | verify) ;; *) [ "$asked" = "$release" ] || echo "folder=$release" ;; esac
printf '\ndone=%s\n' "$verb" # the caller believes nothing without this line; what came before may lack its line end

# ---- systemd in place of the supervisor, for a release whose unit has the line "# systemd". The account's manager runs the
# ---- verb serve: that of the system for root, else that of the user. A line "# systemd NAME" lends a unit that exists on the
# ---- host: it is restarted and reloaded, never written, and .waybill/lent has what runs. This file precedes host.sh in the
# ---- host program.
ctl() { if [ "$(id -u)" -eq 0 ]; then systemctl "$@"; else XDG_RUNTIME_DIR=${XDG_RUNTIME_DIR:-/run/user/$(id -u)} systemctl --user "$@"; fi; }
unit_name() { printf 'waybill-%s.service\n' "${PWD##*/}"; }
unit_file() { if [ "$(id -u)" -eq 0 ]; then echo "/etc/systemd/system/$(unit_name)"; else echo "${XDG_CONFIG_HOME:-$HOME/.config}/systemd/user/$(unit_name)"; fi; }
planned() { grep -q -e '^# systemd$' -e '^# systemd ' "$1" 2>/dev/null; } # FILE: this unit is for systemd
lender() { sed -n '1s/^# systemd \(..*\)$/\1/p' "$1" 2>/dev/null; } # FILE: the name of the unit that it lends

# planted: systemd has a unit for this folder. Its first line names the folder, the release and the digest of its unit here.
# lent is its name when it is one that exists on the host.
planted() {
	lent=
	has systemctl || return 1
	if [ -s .waybill/lent ]; then read -r lent unit_release unit_digest <.waybill/lent; return; fi
	file=$(unit_file 2>/dev/null) && [ -f "$file" ] && written
}
written() { read -r hash owner unit_folder unit_release unit_digest <"$(unit_file)" && [ "$unit_folder" = "$PWD" ]; } # for this folder
# plantable ends the program unless systemd can run a service from this folder, or has the unit that is lent
plantable() { # UNIT
	[ -n "$1" ] || case $PWD in *[!A-Za-z0-9/._+-]*) die 73 "systemd cannot run a service in $PWD: a unit takes letters, digits and / . _ + - in a path; set another root" ;; esac
	has systemctl && ctl show --property=Version >/dev/null 2>&1 ||
		die 73 "systemd does not answer account $(id -un) on this host: set manager: process, or let the account have a systemd of its own (loginctl enable-linger $(id -un))"
	[ "$(id -u)" -eq 0 ] || [ -e "/var/lib/systemd/linger/$(id -un)" ] || loginctl enable-linger >/dev/null 2>&1 ||
		die 73 "systemd ends the services of account $(id -un) when it logs out: run loginctl enable-linger $(id -un) on the host as root"
	if [ -n "$1" ]; then
		[ "$(ctl show --property=LoadState "$1" 2>/dev/null)" = LoadState=loaded ] ||
			die 73 "systemd of account $(id -un) has no unit $1 on this host: put it there, or set service.exec in place of service.unit"
		return
	fi
	[ ! -e "$(unit_file)" ] || written || die 73 "$(unit_file) is not of this folder: set another name for the service, or remove that unit"
}
# observed sets what known reads from what systemd says; it fails when the unit neither runs nor is about to
observed() {
	planted || return 1
	run_supervisor=1 run_release=$unit_release run_unit=$unit_digest unit_state=inactive
	while IFS='=' read -r key value; do
		case $key in
		ActiveState) unit_state=$value ;;
		MainPID) run_service=$value ;;
		NRestarts) run_restarts=$value ;;
		ExecMainStatus) run_exit=$value ;;
		ExecMainStartTimestamp) value=${value#* } && run_started=$(date -u -d "${value% UTC}" +%s 2>/dev/null) || run_started=0 ;;
		esac
	done <<-END
		$(export TZ=UTC && ctl show --property=ActiveState,MainPID,NRestarts,ExecMainStatus,ExecMainStartTimestamp "${lent:-$(unit_name)}" 2>/dev/null)
	END
	if [ -n "$lent" ]; then
		case $unit_state in
		active | reloading) run_exit= ;;
		activating | deactivating) run_service=0 ;; # it is not up yet, or about to be started again
		*) run_service=0 && return 1 ;;
		esac
		return
	fi
	run_exit=
	[ ! -s .waybill/started ] || read -r run_started <.waybill/started || :
	[ ! -s .waybill/exit ] || read -r run_exit <.waybill/exit || : # systemd itself forgets it when the service is started again
	case $unit_state in active | activating | reloading | deactivating) return 0 ;; esac
	return 1
}
supervised() { held .waybill/supervisor || observed; } # something keeps the service up
plant() { # RELEASE: systemd starts it now, and when the host starts; a unit that is lent, now
	lent=$(lender ".waybill/units/$1")
	plantable "$lent"
	if [ -n "$lent" ]; then
		rm -f .waybill/started && echo "$lent $1 -" | save .waybill/lent || exit # no digest: it still runs what it ran
		ctl daemon-reload && renew && echo "$lent $1 $(digest ".waybill/units/$1")" | save .waybill/lent
		return
	fi
	file=$(unit_file)
	mkdir -p "${file%/*}" && cp "$program" .waybill/service.sh.new && keep .waybill/service.sh.new .waybill/service.sh || die 73 "make the unit $file"
	[ ! -f .waybill/log ] || mv -f .waybill/log .waybill/log.1
	rm -f .waybill/exit && true >.waybill/started || die 73 "write in .waybill"
	save "$file" <<-END || exit
		# waybill $PWD $1 $(digest ".waybill/units/$1")
		[Unit]
		Description=${PWD##*/}, deployed by Waybill
		After=network.target
		StartLimitIntervalSec=0
		[Service]
		ExecStart=/bin/sh $PWD/.waybill/service.sh $PWD serve release=$1
		ExecStopPost=/bin/sh -c 'echo \$\$EXIT_STATUS >$PWD/.waybill/exit'
		StandardOutput=append:$PWD/.waybill/log
		StandardError=inherit
		Restart=always
		RestartSec=1
		TimeoutStopSec=10
		[Install]
		WantedBy=default.target
	END
	ctl daemon-reload && ctl enable --quiet "$(unit_name)" && ctl restart "$(unit_name)" || die 73 "systemctl cannot start $(unit_name)"
}
renew() { # restarts the unit that is lent. Its own limit may be no limit, and the lock is held meanwhile, so it has `within`
	ctl --no-block restart "$lent" || return 1
	waited=0
	while ctl show --property=Job "$lent" | grep -q '=[1-9]'; do
		[ "$waited" -lt $((within > 0 ? within : 600)) ] && nap && waited=$((waited + step)) || return 1
	done
	observed
}
serve() { # what systemd runs: the service of a release, in its place
	exec 7>>.waybill/service && grab 7 || exit 75
	(outlet)
	exec >.waybill/out 2>&1
	unit=$PWD/.waybill/units/$release started=$PWD/.waybill/started
	cd "releases/$release" && . "$unit" && date +%s >"$started" && service
	exit
}
uproot() { # UNIT: the service ends, unless UNIT lends its unit, and its unit is removed, unless it was lent
	planted && [ "${lent:--}" != "$1" ] || return 0
	if [ -n "$lent" ]; then
		{ ctl stop "$lent" || ! observed; } && rm -f .waybill/lent || die 74 "systemctl cannot stop $lent"
		return
	fi
	ctl stop "$(unit_name)" || ! held .waybill/service || die 74 "systemctl cannot stop $(unit_name)"
	ctl disable --quiet "$(unit_name)" || :
	rm -f "$file" && ctl daemon-reload || die 73 "remove the unit $file"
}

# said prints the last lines of the service
said() { if planted && [ -n "$lent" ]; then journal | sed 's/^/log=/'; else say .waybill/log; fi; }
journal() { if [ "$(id -u)" -eq 0 ]; then set --; else set -- --user; fi && journalctl "$@" --unit="$lent" --lines=100 --output=cat --no-pager 2>/dev/null; }

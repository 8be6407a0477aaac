#!/bin/sh
# Makes, changes or removes the folder of a service instance. The parameters come as JSON on standard input.
set -eu
parameters=$(cat)
id=$(printf '%s\n' "$parameters" | sed -n 's/.*"instance_id":"\([A-Za-z0-9-]*\)".*/\1/p')
if [ -z "$id" ]; then
	echo "want an id of letters, digits and hyphens" >&2
	exit 78 # repeating it would not help
fi
case $1 in
make | change)
	[ -d "folders/$id" ] || mkdir "folders/$id" # fails while the folder of all folders is away
	printf '%s\n' "$parameters" | sed -n 's/.*"size":\([0-9]*\).*/\1/p' >"folders/$id/size"
	;;
remove)
	[ -d folders ]
	rm -rf "folders/$id"
	;;
esac
case $1 in make) done=made ;; *) done=${1}d ;; esac
echo "$done folder $id" >"$WAYBILL_OUTPUT"

#!/bin/sh
# apt as of the day that the base was made: Debian's images name their own snapshot in a comment above each source.
# APT_MIRROR stands in where that archive is not reached; the versions are then the mirror's, and reports say so.
set -eu
. /etc/os-release
echo 'Acquire::Check-Valid-Until "false";' >/etc/apt/apt.conf.d/90kz
if [ -n "${APT_MIRROR:-}" ]; then
	rm -f /etc/apt/sources.list.d/*
	echo "deb $APT_MIRROR $VERSION_CODENAME main" >/etc/apt/sources.list
else
	for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.sources; do
		[ -f "$file" ] || continue
		awk '/^# http:\/\/snapshot\./ { named = $2 }
			/^URIs:/ && named { $2 = named } /^deb / && named { $2 = named }
			{ print }' "$file" >/tmp/pinned
		cat /tmp/pinned >"$file"
	done
	rm -f /tmp/pinned
	if grep -rhE '^(URIs:|deb )' /etc/apt/sources.list* | grep -v snapshot; then
		echo "kz: the base names no snapshot for these; APT_MIRROR=http://... takes a mirror as it is" >&2
		exit 1
	fi
fi
apt-get update -qq -o APT::Update::Error-Mode=any

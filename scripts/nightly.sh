#!/bin/sh
# Runs `intake-sync backfill` once a day, at NIGHTLY_AT (02:00, in the zone of TZ). A run that fails is reported and
# the next night comes all the same. SIGTERM ends the wait at once, and a run as the command itself ends: after the
# batch in hand. Stands in for the schedule of `serve` until there is one.
set -u
at=${NIGHTLY_AT:-02:00}
child=

date -d "$at" +%s >/dev/null || exit 2

stop() {
  trap '' TERM INT
  if [ -n "$child" ]; then
    kill -TERM "$child" 2>/dev/null
    wait "$child"
  fi
  exit 0
}
trap stop TERM INT

while :; do
  now=$(date +%s)
  next=$(date -d "$at" +%s)
  [ "$next" -gt "$now" ] || next=$(date -d "tomorrow $at" +%s)
  echo "next backfill at $(date -d "@$next" '+%Y-%m-%d %H:%M:%S %Z')"
  # In short sleeps: a signal that comes just before a shell waits is seen only when the wait is over.
  while [ "$(date +%s)" -lt "$next" ]; do
    sleep 3 &
    child=$!
    wait "$child"
  done
  intake-sync backfill "$@" &
  child=$!
  wait "$child" || echo "the backfill ended with exit code $?" >&2
  child=
done

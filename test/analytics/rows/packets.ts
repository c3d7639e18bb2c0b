/** Packets, as webhooks report them and as responses show them; and how current each stream is. */
import { put, putTeams, type Run, type World } from './tables.ts'

async function fill(run: Run): Promise<void> {
  await putTeams(run)
  await put(run, 'intake.packets', `id name\nk Packet`)
  await put(
    run,
    'intake.packet_responses',
    `id       packet_id is_submitted is_archived activity  created_at        submitted_at      _deleted_at
     whole    k         t            f           submitted 2026-03-01T00:00Z 2026-03-02T00:00Z -
     at-once  k         t            t           submitted 2026-03-01T00:00Z 2026-03-01T00:00Z -
     no-one   j         -            -           -         2026-03-02T00:00Z 2026-03-01T00:00Z -
     deleted  k         t            f           submitted 2026-03-01T00:00Z 2026-03-02T00:00Z 2026-03-03`,
  )
  await put(
    run,
    'intake.packet_response_members',
    `packet_response_id position response_id
     whole              1        w-done
     whole              2        w-open
     whole              3        w-skipped
     whole              4        w-unknown
     whole              5        not-loaded
     whole              6        -
     whole              7        w-done-2
     at-once            1        a-done
     deleted            1        d-done`,
  )
  await put(
    run,
    'intake.packet_response_members',
    `packet_response_id position response_id\ntheirs 1 open-2`,
    [2],
  )
  await put(
    run,
    'intake.responses',
    `id        patient_id form_id packet_id is_submitted is_skipped is_archived created_at        submitted_at      _deleted_at
     -- Members of what was reported.
     w-done    bob        f       k         t            f          f           2026-03-01T00:00Z 2026-03-01T12:00Z -
     w-done-2  ann        f       k         t            f          f           2026-03-01T00:00Z 2026-03-01T12:00Z -
     w-open    ann        g       k         f            f          f           2026-03-01T00:00Z -                 -
     w-skipped ann        h       k         t            t          f           2026-03-01T00:00Z 2026-03-01T12:00Z -
     w-unknown ann        i       k         -            -          -           2026-03-01T00:00Z -                 -
     a-done    ann        f       k         t            -          f           2026-03-01T00:00Z 2026-03-01T12:00Z -
     d-done    ann        f       k         t            f          f           2026-03-01T00:00Z 2026-03-01T12:00Z -
     -- Two rounds of three forms; the second was not finished. Of two at the same time the ids decide.
     one-f     cyd        f       k         t            f          t           2026-03-02T00:00Z 2026-03-03T00:00Z -
     z-g       cyd        g       k         t            -          t           2026-03-01T00:00Z 2026-03-02T00:00Z -
     one-h     cyd        h       k         f            t          t           2026-03-03T00:00Z 2026-03-09T00:00Z -
     two-f     cyd        f       k         t            f          t           2026-03-02T00:00Z 2026-03-04T00:00Z -
     two-g     cyd        g       k         f            f          f           2026-03-05T00:00Z -                 -
     -- Each alone.
     skipped   dee        f       k         t            t          f           2026-03-01T00:00Z 2026-03-02T00:00Z -
     open-2    eve        f       k         -            -          -           2026-03-01T00:00Z -                 -
     at-once-2 fay        f       k         t            f          t           2026-03-01T00:00Z 2026-03-01T00:00Z -
     backwards gil        f       k         t            f          f           2026-03-01T00:00Z 2026-02-01T00:00Z -
     nobody    -          f       k         t            f          f           2026-03-01T00:00Z 2026-03-02T00:00Z -
     -- In no packet, or deleted: not there.
     alone     hal        f       -         t            f          f           2026-03-01T00:00Z 2026-03-02T00:00Z -
     gone      ian        f       k         t            f          f           2026-03-01T00:00Z 2026-03-02T00:00Z 2026-03-03`,
  )
  await run(
    `insert into intake_ops.runs (run_id, kind, finished_at) overriding system value
       values (1, 'backfill', '2026-03-01T00:00Z'), (2, 'backfill', '2026-03-05T00:00Z'),
       (3, 'backfill', '2026-03-09T00:00Z'), (4, 'backfill', null)`,
  )
  await put(
    run,
    'intake_ops.run_streams',
    `run_id stream    status
     1      responses succeeded
     2      responses succeeded
     3      responses failed
     4      responses succeeded
     1      packets   succeeded
     3      packets   partial`,
    [1],
  )
  await put(
    run,
    'intake_ops.run_streams',
    `run_id stream status\n3 responses succeeded\n3 packets succeeded`,
    [2],
  )
}

export const PACKETS: World = {
  name: 'packets',
  ids: ['ann', 'bob', 'cyd', 'dee', 'eve', 'fay', 'gil', 'hal', 'ian'],
  fill,
  promises: [
    {
      promise:
        'that webhooks reported count their responses; others are rounds of the same forms, submitted when each was submitted or left out',
      query: `select packet_response_id, patient, packet_id, packet, activity, is_submitted, is_archived, responses, submitted, skipped,
          created_at, submitted_at, time_to_submit
        from intake_analytics.packet_progress`,
      rows: `
        whole   ann k Packet submitted true  false 6 2 1 2026-03-01T00:00 2026-03-02T00:00 1~day
        at-once ann k Packet submitted true  true  1 1 0 2026-03-01T00:00 2026-03-01T00:00 00:00:00
        no-one  -   j -      -         -     -     0 0 0 2026-03-02T00:00 2026-03-01T00:00 -
        -       cyd k Packet submitted true  true  3 2 1 2026-03-01T00:00 2026-03-03T00:00 2~days
        -       cyd k Packet progress  false false 2 1 0 2026-03-02T00:00 -                -
        -       dee k Packet setup     false false 1 0 1 2026-03-01T00:00 -                -
        -       eve k Packet setup     false false 1 0 0 2026-03-01T00:00 -                -
        -       fay k Packet submitted true  true  1 1 0 2026-03-01T00:00 2026-03-01T00:00 00:00:00
        -       gil k Packet submitted true  false 1 1 0 2026-03-01T00:00 2026-02-01T00:00 -
        -       -   k Packet submitted true  false 1 1 0 2026-03-01T00:00 2026-03-02T00:00 1~day`,
    },
    {
      promise:
        'of each stream the last run that succeeded for the team is shown, and the time since then or since the last event',
      query: `select stream, last_run_at, lag = now() - last_run_at as since_run
        from intake_analytics.freshness where stream in ('responses', 'packets', 'forms')`,
      rows: `
        responses 2026-03-05T00:00 true
        packets   2026-03-01T00:00 true
        forms     -                -`,
    },
  ],
}

/** What patients were asked: responses, packets, messages and the figures of forms and days. */
import { put, putTeams, type Run, type World } from './tables.ts'

async function fill(run: Run): Promise<void> {
  await putTeams(run)
  await run(`update intake.teams set timezone = 'America/New_York' where name = 'north'`)
  await put(run, 'intake.patients', `id provider _deleted_at\nann Dr.~Who -\nbob - 2026-01-01`)
  await put(run, 'intake.forms', `id name\nf Form`)
  await put(run, 'intake.packets', `id name\nk Packet\nj Other`)
  await put(run, 'intake.documents', `id name\nd Document`)
  // Of one form: each state, each gap. Half past four in UTC is the day before in New York.
  await put(
    run,
    'intake.responses',
    `id        patient_id form_id packet_id document_id is_submitted is_skipped is_archived created_at        submitted_at      updated_at        _deleted_at
     whole     ann        f       k         d           t            f          t           2026-03-02T04:30Z 2026-03-02T14:30Z 2026-03-02T14:30Z -
     at-once   ann        f       -         -           t            -          -           2026-03-02T05:00Z 2026-03-02T05:00Z 2026-03-02T14:30Z -
     backwards bob        f       -         -           t            f          f           2026-03-03T09:00Z 2026-03-03T08:00Z 2026-03-03T09:00Z -
     slow      -          f       -         -           t            f          f           2026-03-03T09:00Z 2026-03-04T09:00Z 2026-03-03T09:00Z -
     slower    -          f       -         -           t            f          f           2026-03-03T09:00Z 2026-03-05T10:00Z 2026-03-03T09:00Z -
     open      -          f       j         -           f            f          f           2026-03-03T09:00Z -                 2026-03-03T09:00Z -
     unknown   -          f       -         -           -            -          -           -                 -                 -                 -
     left-out  -          f       -         -           t            t          f           2026-03-03T09:00Z 2026-03-09T09:00Z 2026-03-03T09:00Z -
     left-open -          f       -         -           f            t          f           2026-03-01T09:00Z -                 2026-03-03T09:00Z -
     undated   -          f       -         -           t            f          f           2026-03-03T09:00Z -                 2026-03-03T09:00Z -
     deleted   ann        f       -         d           t            f          t           2026-01-01T09:00Z 2026-12-01T09:00Z 2026-03-03T09:00Z 2026-03-03
     formless  ann        -       -         d           t            f          f           2026-03-03T09:00Z 2026-03-03T10:00Z 2026-03-03T10:00Z -
     reopened  -          f       -         -           f            f          f           2026-03-03T09:00Z 2026-03-06T09:00Z 2026-03-03T09:00Z -
     skipped   ann        g       -         -           t            t          f           2026-03-03T09:00Z 2026-03-03T10:00Z 2026-03-03T10:00Z -`,
  )
  await put(
    run,
    'intake.messages',
    `id       form_id sent_at           _deleted_at
     one      f       2026-03-02T04:30Z -
     two      f       2026-03-02T04:45Z -
     unsent   f       -                 -
     gone     f       2026-03-02T04:30Z 2026-03-03
     packaged -       2026-03-02T14:30Z -`,
  )
}

export const REQUESTS: World = {
  name: 'responses and figures of them',
  ids: ['ann', 'bob', 'provider Dr. Who'],
  fill,
  promises: [
    {
      promise:
        'a response has the names of what was asked, its provider, and a time to submit that is not negative',
      query: `select response_id, patient, form, packet, document, is_submitted, is_skipped, is_archived, time_to_submit, provider
        from intake_analytics.responses`,
      rows: `
        whole ann Form Packet Document true false true 10:00:00 provider~Dr.~Who
        at-once ann Form - - true - - 00:00:00 provider~Dr.~Who
        backwards bob Form - - true false false - -
        slow - Form - - true false false 1~day -
        slower - Form - - true false false 2~days~01:00:00 -
        open - Form Other - false false false - -
        unknown - Form - - - - - - -
        left-out - Form - - true true false 6~days -
        left-open - Form - - false true false - -
        undated - Form - - true false false - -
        formless ann - - Document true false false 01:00:00 provider~Dr.~Who
        skipped ann - - - true true false 01:00:00 provider~Dr.~Who
        reopened - Form - - false false false 3~days -`,
    },
    {
      promise:
        'a form counts its responses by state; skipped ones are neither submitted nor in the share and the median',
      query: `select form_id, form, started, submitted, skipped, open, archived, share_submitted::text, median_time, first_started_at, last_submitted_at
        from intake_analytics.form_completion`,
      // Of five durations with an end after their beginning, the third.
      rows: `
        f Form 11 6 2 4 1 0.6667 17:00:00 2026-03-01T09:00 2026-03-09T09:00
        g -    1  0 1 0 0 -      -        2026-03-03T09:00 2026-03-03T10:00`,
    },
    {
      promise:
        'a day of the team counts responses when they were requested and submitted, and messages when they were sent',
      query: `select day, form_id, form, responses_asked, responses_submitted, messages_sent from intake_analytics.daily_volume`,
      rows: `
        2026-03-01 f Form 2 0 2
        2026-03-02 f Form 1 2 0
        2026-03-02 - -    0 0 1
        2026-03-03 f Form 7 1 0
        2026-03-04 f Form 0 1 0
        2026-03-05 f Form 0 1 0
        2026-03-03 - -    1 1 0
        2026-03-03 g -    1 0 0`,
    },
  ],
}

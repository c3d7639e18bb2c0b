/** Messages and packets: which response answers a message, and which responses are one round of a packet. */
import { put, putTeams, type Run, type World } from './tables.ts'

async function fill(run: Run): Promise<void> {
  await putTeams(run)
  await put(run, 'intake.patients', `id provider\nann Dr.~Who`)
  await put(run, 'intake.forms', `id name\nf Form`)
  await put(run, 'intake.packets', `id name\nk Packet`)
  // Words of messages: one patient each, so that no message follows another.
  await put(
    run,
    'intake.messages',
    `id      patient_id preferred_delivery_method status
     word-1  w1         Email                     Pending
     word-2  w2         SMS                       scheduled
     word-3  w3         fax                       SENT
     word-4  w4         -                         failed
     word-5  w5         ''                        cancelled
     word-6  w6         email                     delivered
     word-7  w7         sms                       bounced
     word-8  w8         sms                       queued
     word-9  w9         sms                       canceled
     word-10 w10        sms                       opened
     word-11 w11        sms                       -`,
  )
  await put(
    run,
    'intake.messages',
    `id        patient_id form_id packet_id document_id sent_at              _deleted_at
     -- The first of three for one form; deleted and unsent ones are between none.
     z-first   ann        f       -         -           2026-03-01T00:00Z    -
     deleted   ann        f       -         -           2026-03-01T12:00Z    2026-03-02
     m-second  ann        f       -         -           2026-03-02T00:00Z    -
     a-third   ann        f       -         -           2026-03-03T00:00Z    -
     -- Two at the same time: the second by its id is the later one.
     same-2    sam        f       -         -           2026-03-01T00:00Z    -
     same-1    sam        f       -         -           2026-03-01T00:00Z    -
     -- For a form in a packet, the packet counts; a document if there is neither.
     packed    pam        f       k         -           2026-03-01T00:00Z    -
     alone     pam        f       -         -           2026-03-01T00:00Z    -
     document  pam        -       -         d           2026-03-01T00:00Z    -
     nobody's  -          f       -         -           2026-03-01T00:00Z    -
     -- Opened or not, by the second.
     touched   tom        f       -         -           2026-03-01T00:00Z    -
     new       tim        f       -         -           2026-03-01T00:00Z    -
     minute    mia        f       -         -           2026-03-01T00:00Z    -
     later     leo        f       -         -           2026-03-01T00:00Z    -
     early     eva        f       -         -           2026-03-01T00:00Z    -
     too-early eve        f       -         -           2026-03-01T00:00Z    -
     answered  amy        f       -         -           2026-03-01T00:00Z    -
     backwards bea        f       -         -           2026-03-01T00:00Z    -
     several   sue        f       -         -           2026-03-01T00:00Z    -
     untouched uma        f       -         -           2026-03-01T00:00Z    -
     edge-1    pia        f       -         -           2026-03-01T00:00Z    -
     edge-2    pia        f       -         -           2026-03-02T00:00Z    -`,
  )
  await put(
    run,
    'intake.responses',
    `id        patient_id form_id packet_id document_id is_submitted is_skipped created_at              updated_at              submitted_at      _deleted_at
     r-first   ann        f       -         -           t            f          2026-03-01T23:59:58.9Z  2026-03-04T00:00Z       2026-03-04T00:00Z -
     r-second  ann        f       -         -           f            f          2026-03-01T23:59:59Z    2026-03-01T23:59:59Z    -                 -
     r-same    sam        f       -         -           f            f          2026-03-01T00:01Z       2026-03-01T00:01Z       -                 -
     r-packed  pam        f       k         -           t            f          2026-03-01T00:00:02Z    2026-03-02T00:00Z       2026-03-02T00:00Z -
     r-alone   pam        f       -         -           t            f          2026-03-01T00:00:05Z    2026-03-02T00:00Z       2026-03-01T12:00Z -
     r-doc     pam        -       -         d           t            -          2026-03-01T00:00:05Z    2026-03-02T00:00Z       2026-03-01T06:00Z -
     r-nobody  -          f       -         -           t            f          2026-03-01T00:00:05Z    2026-03-02T00:00Z       2026-03-01T06:00Z -
     r-touched tom        f       -         -           f            f          2026-03-01T00:00:05Z    2026-03-01T00:00:06Z    -                 -
     r-new     tim        f       -         -           -            -          2026-03-01T00:00:05Z    2026-03-01T00:00:05Z    -                 -
     r-minute  mia        f       -         -           f            f          2026-03-01T00:01Z       2026-03-01T00:01Z       -                 -
     r-later   leo        f       -         -           f            f          2026-03-01T00:01:00.1Z  2026-03-01T00:01:00.1Z  -                 -
     r-early   eva        f       -         -           f            f          2026-02-28T23:59:59Z    2026-02-28T23:59:59Z    -                 -
     r-before  eve        f       -         -           t            f          2026-02-28T23:59:58.9Z  2026-03-01T00:00Z       2026-03-01T00:00Z -
     r-amy     amy        f       -         -           t            f          2026-03-01T00:00Z       2026-03-01T00:00Z       2026-03-01T00:00Z -
     r-bea     bea        f       -         -           t            f          2026-03-01T00:00Z       2026-03-01T00:00Z       2026-02-28T23:00Z -
     s-deleted sue        f       -         -           t            f          2026-03-01T00:00:01Z    2026-03-01T00:00Z       2026-03-01T01:00Z 2026-03-02
     s-skipped sue        f       -         -           t            t          2026-03-01T00:00:02Z    2026-03-01T00:00Z       2026-03-01T01:00Z -
     s-b       sue        f       -         -           f            f          2026-03-01T00:00:03Z    2026-03-01T00:00:03Z    -                 -
     s-a       sue        f       -         -           t            f          2026-03-01T00:00:03Z    2026-03-01T00:00:03Z    2026-03-01T01:00Z -
     s-0       sue        f       -         -           f            f          2026-03-01T00:00:04Z    2026-03-01T00:00:04Z    -                 -
     r-edge    pia        f       -         -           f            f          2026-03-01T23:59:59Z    2026-03-01T23:59:59Z    -                 -
     r-other   uma        g       -         -           t            f          2026-03-01T00:00:04Z    2026-03-01T00:00:04Z    2026-03-01T01:00Z -`,
  )
  await put(
    run,
    'intake.responses',
    `id patient_id form_id is_submitted created_at
     theirs uma f t 2026-03-01T00:00:01Z`,
    [2],
  )
}

export const OUTCOMES: World = {
  name: 'messages',
  ids: ['ann', 'pam', 'provider Dr. Who'],
  fill,
  promises: [
    {
      promise: 'have a channel and a status of a list; any other word is other',
      query: `select message_id, channel, status, is_sent from intake_analytics.message_outcomes where message_id ~ '^word'`,
      rows: `
        word-1  email pending   false
        word-2  sms   scheduled false
        word-3  other sent      false
        word-4  -     failed    false
        word-5  other cancelled false
        word-6  email delivered false
        word-7  sms   bounced   false
        word-8  sms   queued    false
        word-9  sms   canceled  false
        word-10 sms   other     false
        word-11 sms   -         false`,
    },
    {
      promise:
        'are answered by the first response of their patient to the same, from a second before they were sent until the next one',
      query: `select message_id, response_id, is_sent, is_opened, is_answered, answered_at, time_to_answer
        from intake_analytics.message_outcomes where message_id !~ '^word'`,
      rows: `
        z-first   r-first   true true  true  2026-03-04T00:00 3~days
        m-second  r-second  true false false -                -
        a-third   -         true false false -                -
        same-1    -         true false false -                -
        same-2    r-same    true false false -                -
        packed    r-packed  true true  true  2026-03-02T00:00 1~day
        alone     r-alone   true true  true  2026-03-01T12:00 12:00:00
        document  r-doc     true true  true  2026-03-01T06:00 06:00:00
        nobody's  -         true false false -                -
        touched   r-touched true true  false -                -
        new       r-new     true false false -                -
        minute    r-minute  true false false -                -
        later     r-later   true true  false -                -
        early     r-early   true false false -                -
        too-early -         true false false -                -
        answered  r-amy     true true  true  2026-03-01T00:00 00:00:00
        backwards r-bea     true true  true  2026-02-28T23:00 -
        several   s-a       true true  true  2026-03-01T01:00 01:00:00
        untouched -         true false false -                -
        edge-1    -         true false false -                -
        edge-2    r-edge    true false false -                -`,
    },
    {
      promise: 'have the names of what they ask for, and the provider of their patient',
      query: `select message_id, patient, form, packet, document_id, provider from intake_analytics.message_outcomes
        where message_id in ('z-first', 'packed', 'document', 'nobody''s')`,
      rows: `
        z-first   ann                Form -      - provider~Dr.~Who
        packed    pam                Form Packet - -
        document  pam                -    -      d -
        nobody's  -                  Form -      - -`,
    },
  ],
}

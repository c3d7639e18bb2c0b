/**
 * Conditions that must hold once the inbox is empty, computed from the inbox alone, without the code that drained it:
 *
 * - every acknowledged event is there, byte for byte, and done;
 * - each patient is in the state of its greatest event: by the later of `updated_at` and `timestamp`, a delete before
 * another state of the same time; its children too;
 * - there is no patient without an event.
 */
import { query } from './query.ts'
import type { Sender } from './sender.ts'

interface Stored {
  readonly event_id: string
  readonly hash: string
  readonly status: string
  readonly body: Buffer
}

export interface Verdict {
  readonly acknowledged: number
  readonly stored: number
  /** Seconds from the last event until nothing was pending, if that was waited for. */
  readonly seconds?: number
  /** Empty if all is well; otherwise the violations, one line each. */
  readonly faults: readonly string[]
}

export async function judge(url: string, sender: Sender): Promise<Verdict> {
  const stored = await query<Stored>(
    url,
    `select event_id, encode(sha256(body), 'hex') as hash, status, body from intake_raw.inbox`,
  )
  const faults: string[] = []
  const done = new Set(
    stored.flatMap((row) => (row.status === 'done' ? [`${row.event_id} ${row.hash}`] : [])),
  )
  const missing = [...sender.acknowledged].filter((key) => !done.has(key))
  if (missing.length > 0)
    faults.push(`${missing.length} acknowledged events are not in the inbox as done: ${missing[0]}`)
  const undone = stored.filter((row) => row.status !== 'done')
  if (undone.length > 0)
    faults.push(`${undone.length} events are ${[...new Set(undone.map((row) => row.status))]}`)
  if (new Set(stored.map((row) => `${row.event_id} ${row.hash}`)).size < stored.length)
    faults.push('an event is stored twice')
  if (sender.odd.size > 0) faults.push(`answers other than 200 and 503: ${[...sender.odd]}`)
  const deadLetters = await query(url, 'select reason from intake_ops.dead_letters')
  if (deadLetters.length > 0) faults.push(`${deadLetters.length} dead letters`)
  const expected = expectedOf(stored)
  const tables = await storedTables(url)
  for (const id of new Set([...expected.keys(), ...tables.keys()])) {
    if (expected.get(id) !== tables.get(id))
      faults.push(`${id} is ${tables.get(id)} in place of ${expected.get(id)}`)
  }
  return { acknowledged: sender.acknowledged.size, stored: stored.length, faults: faults.slice(0, 10) }
}

interface Event {
  readonly timestamp: string
  readonly event_type: string
  readonly data: { readonly id: string; readonly updated_at?: string; readonly last_name?: string }
}

function expectedOf(stored: readonly Stored[]): Map<string, string> {
  const latest = new Map<string, { order: string; says: string }>()
  for (const { body } of stored) {
    const { timestamp, event_type, data } = JSON.parse(body.toString('utf8')) as Event
    const deleted = event_type === 'deleted'
    const version = [timestamp, data.updated_at ?? ''].sort()[1]
    const order = `${version} ${deleted ? 1 : 0}`
    const says = deleted ? 'deleted' : `${data.last_name} with 1 tag and 1 field`
    const known = latest.get(data.id)
    if (known === undefined || order > known.order) latest.set(data.id, { order, says })
  }
  return new Map([...latest].map(([id, { says }]) => [id, says]))
}

async function storedTables(url: string): Promise<Map<string, string>> {
  const rows = await query<{ id: string; says: string }>(
    url,
    `select id, case when _deleted_at is not null then 'deleted' else last_name || ' with ' ||
       (select count(*) from intake.patient_tags tag where tag.patient_id = patient.id) || ' tag and ' ||
       (select count(*) from intake.patient_custom_fields field where field.patient_id = patient.id) || ' field' end as says
     from intake.patients patient`,
  )
  return new Map(rows.map(({ id, says }) => [id, says]))
}

/**
 * Checks the laws. It knows every state that the source ever had and every acknowledged event, and nothing of the code
 * that loaded them:
 *
 * - no row was invented: each stored state, superseded ones included, existed at the source at or after its observed_at,
 * minus the lag of asynchronous senders, or is a part of such a state that an event contained; each tombstone was a
 * deleted record;
 * - no acknowledged event is missing: its bytes are in the inbox, and done at rest; if an event carried the newest state
 * of a record, that state is stored, unless the record is gone since;
 * - a conflicting record that the service answered to be gone is stored as deleted;
 * - the cursor skipped nothing: after an ordinary run every response that was submitted before it is stored as submitted;
 * - packet responses: `judge-packets.ts`;
 * - in the end the tables equal the source, row for row.
 */
import type { BackfillSummary } from '../../src/extract/backfill.ts'
import { streamNamed } from '../../src/streams/catalogue.ts'
import { comparable, type History, type State } from './history.ts'
import { judgeEnd } from './judge-end.ts'
import { openPacketJudge } from './judge-packets.ts'
import type { Lane, Team } from './lane.ts'
import type { Heard } from './network.ts'
import type { Plan } from './plan.ts'
import type { Run } from './runs.ts'
import type { Sender } from './sender.ts'
import type { Service } from './service.ts'
import { isBefore, keyOf, type StoredState, standing, statesOf } from './stored-states.ts'

export interface Checker {
  readonly faults: readonly string[]
  note(fault: string): void
  /** Holds at any time. */
  look(when: string): Promise<void>
  /** Holds at rest, when nothing is in progress. */
  afterRest(): Promise<void>
  afterRun(kind: 'new' | 'everything', summary: BackfillSummary | null): Promise<void>
  /** After an ordinary run during chaos, which began at `since` on the service's clock and met no fault. */
  afterNight(night: { readonly run: Run; readonly since: number }): Promise<void>
}

export interface CheckerOptions {
  readonly lane: Lane
  readonly team: Team
  readonly history: History
  readonly service: Service
  readonly plan: Plan
  readonly sender: Sender
  readonly heard: Heard
}

export function openChecker(options: CheckerOptions): Checker {
  const { lane, team, history, service, plan, sender, heard } = options
  const faults: string[] = []
  const { streams } = plan
  const packets = openPacketJudge(lane, team, service.world)
  const hasPackets = streams.includes('packet_responses')
  /** Stored as deleted at some check: the source never reuses an id, so they stay deleted. */
  const gone = new Set<string>()
  const note = (fault: string) => {
    if (!faults.includes(fault)) faults.push(fault)
  }

  function judge(when: string, rows: readonly StoredState[], asked: ReadonlySet<string>): void {
    const current = standing(rows)
    for (const row of rows) {
      const { stream, id, deleted, observed, superseded, version } = row
      const key = keyOf(stream, id)
      const what = `${when}: ${key}${superseded ? ' (superseded)' : ''}, from ${row.origin}`
      const states = history.statesOf(stream, id)
      const now = current.get(key)
      if (now === undefined) note(`${what}: history of a record that is not stored`)
      else if (superseded && !isBefore(row, now)) note(`${what}: superseded by what is not newer`)
      if (version < observed) note(`${what}: of a version before it was observed`)
      // A record that an event restores is unconfirmed until its refetch.
      if (!superseded && !deleted && gone.has(key) && !asked.has(key))
        note(`${what}: its deletion was undone`)
      if (deleted) {
        gone.add(key)
        if (!states.some(({ text }) => text === null)) note(`${what}: stored as deleted, and never was`)
        continue
      }
      const text = comparable(row.payload)
      const isPart = isEvent(row) && sender.partial.has(key)
      const same = states.filter((state) => state.text === text || (isPart && contains(state, row.payload)))
      const lag = isEvent(row) && plan.asynchronous > 0 ? plan.lagMicros : 0
      if (same.length === 0) note(`${what}: no state that the source ever had`)
      else if (!same.some(({ to }) => to === null || to >= observed - lag))
        note(`${what}: a state that was over when it is said to have been observed`)
    }
  }

  /** The tables show the stored states. */
  async function judgeTables(when: string): Promise<void> {
    const parts = streams.map((name) => {
      const { table } = streamNamed(name)!
      return `select '${name}' as stream, coalesce(row.id, raw.id) as id
        from (select * from intake.${table} where team_id = $1) row
        full join (select * from intake_raw.records where team_id = $1 and stream = '${name}') raw on raw.id = row.id
        where (row._version, row._hash, row._deleted_at is not null)
          is distinct from (raw.version, case when not raw.deleted then raw.hash end, raw.deleted)`
    })
    const rows = await lane.query<{ stream: string; id: string }>(parts.join(' union all '), [team.teamId])
    for (const { stream, id } of rows) note(`${when}: ${stream} ${id}: its row is not the stored state`)
  }

  async function judgeInbox(when: string, settled: boolean): Promise<void> {
    const rows = await lane.query<{ hash: string; right: boolean; status: string; attempts: number }>(
      `select encode(body_hash, 'hex') as hash, sha256(body) = body_hash as right, status, attempts
       from intake_raw.inbox where team_id = $1`,
      [team.teamId],
    )
    const stored = new Map(rows.map((row) => [row.hash, row]))
    if (rows.some(({ attempts }) => attempts > 0))
      note(`${when}: an event could not be loaded, and was tried alone`)
    for (const { hash, eventId } of sender.acknowledged) {
      const row = stored.get(hash)
      if (row === undefined || !row.right)
        note(`${when}: ${eventId} was acknowledged, and its bytes are not stored`)
      else if (settled && row.status !== 'done')
        note(`${when}: ${eventId} was acknowledged, and is ${row.status}`)
    }
  }

  async function look(when: string): Promise<readonly StoredState[]> {
    history.look()
    const rows = await statesOf(lane, team)
    judge(when, rows, await lane.asked(team))
    await judgeTables(when)
    if (hasPackets) await packets.look(rows, (fault) => note(`${when}: ${fault}`))
    return rows
  }

  /** A record whose newest state was in an acknowledged event is stored in that state. */
  function judgeNewest(when: string, rows: readonly StoredState[]): void {
    const newest = standing(rows)
    for (const { stream, id, type, data, eventId } of sender.acknowledged) {
      // Of two renderings of one event the newer is unknown, if the record cannot be fetched by id.
      if (stream === 'packet_responses') continue
      const state = history.current(stream, id)
      const isNewest = type === 'deleted' ? state?.text === null : state?.text === comparable(data)
      // An equal state may have been reported the first time: changes of embedded records cause no event.
      const isOnce = history.statesOf(stream, id).filter(({ text }) => text === state?.text).length === 1
      if (!isNewest || !isOnce) continue
      const row = newest.get(keyOf(stream, id))
      const isStored =
        state!.text === null
          ? row?.deleted === true
          : row !== undefined && comparable(row.payload) === state!.text
      if (!isStored)
        note(
          `${when}: ${stream} ${id}: ${eventId} (${type}) carried its newest state, and another is stored, from ${row?.origin}`,
        )
    }
  }

  /** A conflicting record that is gone is stored as deleted; for members of packets only a scan proves the delete. */
  function judgeGone(when: string, rows: readonly StoredState[]): void {
    const newest = standing(rows)
    for (const path of heard.gone) {
      const [, , name, id] = path.split('/')
      const stream = streams.find((each) => each === name)
      if (stream === undefined || (stream === 'responses' && hasPackets)) continue
      // A request for the rest of a partial record proves no delete, nor does one that a failed one left.
      if (sender.partial.has(keyOf(stream, id!)) || heard.failed.has(path)) continue
      if (newest.get(keyOf(stream, id!))?.deleted !== true)
        note(`${when}: ${stream} ${id} is not there, as the service answered, and is not stored as deleted`)
    }
  }

  /** Every response that was submitted at `since` and still exists is stored as submitted. */
  function judgeSubmitted(when: string, rows: readonly StoredState[], since: number): void {
    if (!streams.includes('responses')) return
    const newest = standing(rows)
    for (const id of history.ids('responses')) {
      const then = history.statesOf('responses', id).filter(({ from }) => from <= since)
      if (history.current('responses', id)?.text == null || !then.some(isSubmitted)) continue
      const row = newest.get(keyOf('responses', id))
      if ((row?.payload as { is_submitted?: boolean } | null | undefined)?.is_submitted !== true)
        note(`${when}: responses ${id} was submitted, and is not stored as submitted`)
    }
  }

  return {
    faults,
    note,
    async look(when) {
      await look(when)
      await judgeInbox(when, false)
    },
    async afterRest() {
      const rows = await look('at rest')
      await judgeInbox('at rest', true)
      judgeNewest('at rest', rows)
      judgeGone('at rest', rows)
      if (hasPackets) packets.atRest(rows, sender.acknowledged, (fault) => note(`at rest: ${fault}`))
    },
    async afterNight({ run, since }) {
      const rows = await look('after a night')
      if (run.summary?.status === 'succeeded') judgeSubmitted('after a night', rows, since)
    },
    async afterRun(kind, summary) {
      const when = `after reading ${kind}`
      const rows = await look(when)
      if (summary === null) return note(`${when}: the run failed`)
      if (summary.status !== 'succeeded') {
        const notes = summary.teams.flatMap((each) =>
          each.streams.map(({ stream, report }) => `${stream} ${report.note}`),
        )
        note(`${when}: the run ${summary.status}: ${notes.join('; ')}`)
      }
      judgeSubmitted(when, rows, Number.POSITIVE_INFINITY)
      const noteAt = (fault: string) => note(`${when}: ${fault}`)
      if (kind === 'everything') await judgeEnd({ lane, team, service }, streams, noteAt)
    },
  }
}

/** From an event, and not from the answer to its refetch. */
function isEvent({ origin }: StoredState): boolean {
  return origin.startsWith('event:') && !origin.endsWith(' refetch')
}

/** True if the state has every field of the payload, with its value. */
function contains({ text }: State, payload: unknown): boolean {
  if (text === null) return false
  const whole = JSON.parse(text) as Record<string, unknown>
  return Object.entries(payload as object).every(
    ([name, value]) => name in whole && comparable(whole[name]) === comparable(value),
  )
}

function isSubmitted({ text }: { readonly text: string | null }): boolean {
  return text?.includes('"is_submitted":true') === true
}

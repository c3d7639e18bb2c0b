/**
 * Slices claimed and settled by several sessions at once, without executing them, compared with the settling alone.
 *
 * Invariant: a figure counts only when every slice was claimed once.
 */
import type { StreamName } from '../../src/core/envelope.ts'
import { type ClaimedSlice, claimSlices, openWorkSession, settleClaimed } from '../../src/load/claims.ts'
import { insertRun } from '../../src/load/slice.ts'
import { STREAMS } from '../../src/streams/catalogue.ts'
import { type BenchRow, timed } from './row.ts'
import type { BenchWarehouse } from './warehouse.ts'

const WORKERS = 4
const AIM = 500
const STREAMS_OF_A_TEAM = STREAMS.map(({ name }) => name)

/** Every team has a slice of each stream; each session asks for one slice, or for four, at a time. */
export async function benchClaims(warehouse: BenchWarehouse, teams: number): Promise<readonly BenchRow[]> {
  const one = await claimAll(warehouse, teams, 1)
  const four = await claimAll(warehouse, teams, 4)
  return [one, four].map(({ perSecond, settles, most, slices }) => ({
    ...{ what: `slices claimed and settled, ${WORKERS} sessions, ${most} at a time`, figure: perSecond },
    ...{ unit: 'slices/s', floorIs: 'settled only', floor: settles, ratio: perSecond / settles },
    ...{
      aim: `≥ ${AIM}/s`,
      met: perSecond >= AIM,
      peakBytes: null,
      notes: `${slices} slices of ${teams} teams`,
    },
  }))
}

async function claimAll({ url, session }: BenchWarehouse, teams: number, most: number) {
  await session.client.query('delete from intake_ops.runs')
  const names = Array.from({ length: teams }, (_, at) => `claims ${at}`)
  const { rows } = await session.client.query<{ team_id: number }>(
    `insert into intake.teams (name) select unnest($1::text[])
     on conflict (name) do update set name = excluded.name returning team_id`,
    [names],
  )
  const window = { lookbackDays: 2, sweepDays: 7, full: false, since: null }
  const parts = STREAMS_OF_A_TEAM.flatMap((stream: StreamName) =>
    rows.map(({ team_id: teamId }) => ({ teamId, stream })),
  )
  await session.db
    .transaction()
    .execute((db) => insertRun(db, {}, { window, allow_mass_delete: false }, parts))
  await session.client.query('analyze')
  const workers = await Promise.all(
    Array.from({ length: WORKERS }, (_, at) => openWorkSession(url, String(at).padStart(8, '0'))),
  )
  const claimed: ClaimedSlice[] = []
  let settleSeconds = 0
  const { seconds } = await timed(() =>
    Promise.all(
      workers.map(async ({ session: own, owner }) => {
        for (;;) {
          const next = await claimSlices(own.db, { owner, teams: names, streams: STREAMS_OF_A_TEAM, most })
          const streams = next.filter(({ kind }) => kind === 'stream')
          if (streams.length === 0) return
          claimed.push(...streams)
          const begun = performance.now()
          for (const slice of streams)
            await own.db.transaction().execute((db) => settleClaimed(db, slice, 'done', null))
          settleSeconds += (performance.now() - begun) / 1000
        }
      }),
    ),
  )
  await Promise.all(workers.map((worker) => worker.session.close()))
  const different = new Set(claimed.map(({ sliceId }) => sliceId)).size
  if (claimed.length !== parts.length || different !== parts.length)
    throw new Error(`${claimed.length} claims of ${different} of ${parts.length} slices`)
  return {
    most,
    slices: parts.length,
    perSecond: parts.length / seconds,
    settles: (parts.length / settleSeconds) * WORKERS,
  }
}

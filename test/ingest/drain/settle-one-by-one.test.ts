/** What a batch reports of each team: each event once, with the seconds from its arrival. */
import { expect, it } from 'vitest'
import type { InboxRow } from '../../../src/ingest/drain/inbox-rows.ts'
import { reportOutcome } from '../../../src/ingest/drain/settle-one-by-one.ts'
import { unwatched } from './scene.ts'

const row = (teamId: number, seq: string) => ({ teamId, seq }) as InboxRow
const TEAMS = ['north', 'south', 'quiet'].map((name, at) => ({ name, teamId: at + 1 }))

it('events of several parts, loaded, dead-lettered in either way and postponed, are counted for their team', () => {
  const rows = ['1', '2', '3', '4'].map((seq) => row(1, seq))
  const others = ['5', '6', '7', '8', '9'].map((seq) => row(2, seq))
  const worse = ['10', '11', '12'].map((seq) => row(1, seq))
  const settled = (...seqs: readonly string[]) => seqs.map((seq) => ({ seq, seconds: Number(seq) / 10 }))
  const reported: unknown[] = []
  reportOutcome({ ...unwatched, drained: (...each) => reported.push(each) }, TEAMS, {
    loaded: [
      {
        rows: [rows[0]!, rows[1]!, worse[0]!, others[0]!],
        dead: new Set([rows[1]!, worse[0]!]),
        settled: settled('1', '5'),
        refetches: 0,
      },
      { rows: [rows[2]!], dead: new Set(), settled: settled('3'), refetches: 0 },
    ],
    postponed: [others[1]!, others[2]!, worse[1]!],
    deadLettered: [rows[3]!, worse[2]!, others[3]!, others[4]!],
  })
  expect(reported).toEqual([
    ['north', { done: 2, dead: 4, retried: 1 }, [0.1, 0.3]],
    ['south', { done: 1, dead: 2, retried: 2 }, [0.5]],
  ])
})

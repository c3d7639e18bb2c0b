/** What the watchers of a run see of a stream at each of its requests, and whenever its records are loaded. */
import { expect, test } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { openTeam } from '../../src/extract/backfill-options.ts'
import { EVERYTHING } from '../../src/extract/reading/window.ts'
import { runStream } from '../../src/extract/run-stream.ts'
import { type Figures, unwatched } from '../../src/load/run-progress.ts'
import { patients } from '../../src/streams/patients.ts'
import { silent } from '../ingest/drain/scene.ts'
import { ago, openRig } from './support/reading.ts'

test('the phase, the pages that are left, and the counts are those of each moment', async () => {
  await using rig = await openRig()
  const person = (id: string) => ({ id, first_name: 'A' })
  await rig.hold('patients', ['a', 'gone'].map(person), ago(60))
  rig.service.records.patients = ['a', 'b', 'c', 'd', 'e'].map(person)
  rig.service.pageSize = 2
  const { signal } = new AbortController()
  const shared = { clock: systemClock, random: () => 0.001, logger: silent, signal }
  await using team = openTeam(
    {
      ...{ name: 'default', teamId: rig.teamId, baseUrl: rig.service.url },
      ...{ apiKey: 'key', apiSecret: 'secret', apiVersion: 'v2.1', concurrency: 1 },
    },
    shared,
  )
  let figures: () => Figures = () => expect.fail('nobody watches')
  const watch = (_team: number, _stream: string, counted: () => Figures) => {
    figures = counted
  }
  const seen: (readonly [string, ...unknown[]])[] = []
  const look = (at: string) => {
    const { phase, pages, requests, fetched, expected, pages_left } = figures()
    seen.push([at, phase, { pages, requests, fetched, expected, pages_left }])
  }
  rig.service.interfere = ({ url }) => {
    look(url.split('/').at(-1)!)
    return false
  }
  const loading = (loaders: typeof rig.loaders): typeof rig.loaders => ({
    ...loaders,
    run: (work) => {
      if (figures().phase === 'merge' && seen.at(-1)![0] !== 'load') look('load')
      return loaders.run(work)
    },
  })
  const report = await runStream({
    ...{ team, stream: patients, loaders: loading(rig.loaders), runId: '7' },
    options: {
      ...{ ...shared, url: rig.url, teams: [], streams: [], allowMassDelete: false, window: EVERYTHING },
      ...{ dry: false, migrated: true, onProgress: () => {} },
    },
    progress: { ...unwatched(silent), watch },
  })
  look('the end')
  expect(report).toMatchObject({ status: 'succeeded', changed: 4, unchanged: 1, deleted: 1, requests: 4 })
  const of = (pages: number, requests: number, fetched: number, pages_left: number | null) => {
    return { pages, requests, fetched, expected: pages === 0 ? null : 5, pages_left }
  }
  expect(seen).toEqual([
    ['patients', 'plan', of(0, 1, 0, null)],
    ['patients?page=2', 'fetch', of(1, 2, 2, 2)],
    ['patients?page=3', 'fetch', of(2, 3, 4, 1)],
    ['load', 'merge', of(3, 3, 5, 0)],
    ['gone', 'delete check', of(3, 4, 5, 0)],
    ['the end', 'ended', of(3, 4, 5, 0)],
  ])
})

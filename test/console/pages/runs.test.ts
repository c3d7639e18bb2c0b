/** How far a run has come, as the page shows it. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { wallClock } from '../../../src/emulator/clock.ts'
import { openScene, type Scene } from '../../e2e/support/scene.ts'
import { startConsole } from '../support/console.ts'

let scene: Scene
let page: Awaited<ReturnType<typeof startConsole>>

/** While the service is slow by so much, it answers one request, and the others when `release` is called. */
const SLOW_MS = 77_777
let asked = 0
let release = () => {}
const released = new Promise<void>((done) => {
  release = done
})
const clock: typeof wallClock = {
  ...wallClock,
  sleep: (milliseconds, signal) => {
    if (milliseconds !== SLOW_MS) return wallClock.sleep(milliseconds, signal)
    asked += 1
    return asked === 1 ? Promise.resolve() : released
  },
}

beforeAll(async () => {
  scene = await openScene({ clock })
  page = await startConsole(scene.url)
})
afterAll(async () => {
  release()
  await page?.close()
  await scene?.[Symbol.asyncDispose]()
})

it('a running run shows phase, pages, requests, 429s and log lines, and what its streams became when it ended', async () => {
  const reader = await page.enter('viewer')
  const { control } = scene.emulator
  control.setFaults(`slow=1:${SLOW_MS}`)
  const running = scene.backfill('--streams', 'patients')
  const now = async () => {
    const [run] = await scene.query<{ run_id: number }>('select run_id::int as run_id from intake_ops.runs')
    if (run === undefined) return ''
    const { text } = await reader.get(`/runs/${run.run_id}`)
    return text
      .replace(/<[^>]*aria-current="step"[^>]*>/g, ' NOW:')
      .replace(/<[^>]*>/g, ' ')
      .replace(/\s+/g, ' ')
  }
  await expect
    .poll(now)
    .toMatch(/1 stream being read, 0 ended;.* default patients plan NOW:fetch merge delete check \d+ \d+ 45 /)
  const during = await now()
  expect(during).toMatch(/default [1-9]\d* 0 \d+\.\d /)
  expect(during).toMatch(/Log .*\d\d:\d\d:\d\d info default\/patients began/)
  release()
  expect((await running).code).toBe(0)
  const after = await now()
  expect(after).not.toContain('being read')
  expect(after).toContain('default/patients succeeded: 45 fetched, 45 changed, 0 deleted')
  const rows = await scene.query<{ phase: string; pages: number; fetched: number; requests: number }>(
    `select phase, pages::int as pages, fetched::int as fetched, (progress.requests - part.requests)::int as requests
     from intake_ops.run_progress progress join (select run_id, team_id, stream, requests from intake_ops.run_streams) part
     using (run_id, team_id, stream)`,
  )
  expect(rows).toEqual([{ phase: 'ended', pages: 5, fetched: 45, requests: 0 }])
})

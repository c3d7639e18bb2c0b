/** The bars that a command draws on a terminal: one for each stream, with the team where there are several; and one for an upload. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { runProgram } from '../../../src/commands/program.ts'
import { backfill } from '../../../src/extract/backfill.ts'
import { replay } from '../../../src/reconcile/replay.ts'
import { verify } from '../../../src/reconcile/verify/verify.ts'
import { json, startService } from '../../api/support/service.ts'
import { openWarehouse } from '../../e2e/support/scene.ts'
import { configOf } from '../../e2e/support/teams.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'

vi.mock('../../../src/extract/backfill.ts', async (original) => ({
  ...(await original()),
  backfill: vi.fn(),
}))
vi.mock('../../../src/reconcile/replay.ts', async (original) => ({ ...(await original()), replay: vi.fn() }))
vi.mock('../../../src/reconcile/verify/verify.ts', async (original) => ({
  ...(await original()),
  verify: vi.fn(),
}))

let warehouse: Awaited<ReturnType<typeof openWarehouse>>

beforeAll(async () => {
  warehouse = await openWarehouse()
})
afterAll(() => warehouse?.drop())

const ENDED = { runId: '1', status: 'succeeded', teams: [] }
/** What each part says of its progress: two teams, and two streams of one. */
const SEEN = [
  ['north', 'forms', 2, 5],
  ['south', 'forms', 3, 4],
  ['south', 'packets', 7, null],
] as const

function speak(teams: readonly string[]) {
  const seen = SEEN.filter(([team]) => teams.includes(team))
  const part = async ({ onProgress }: Parameters<typeof backfill>[0] | Parameters<typeof verify>[0]) => {
    for (const [team, stream, fetched, expected] of seen) onProgress(team, stream, { fetched, expected })
    return ENDED as never
  }
  vi.mocked(backfill).mockImplementation(part)
  vi.mocked(verify).mockImplementation(part)
  vi.mocked(replay).mockImplementation(async ({ onProgress }) => {
    for (const [team, stream, records] of seen) onProgress(team, stream, records)
    return ENDED as never
  })
}

/** The bars as they were drawn last, by name. */
async function barsOf(words: readonly string[], teams: readonly string[], baseUrl = 'http://127.0.0.1:1') {
  speak(teams)
  let drawn = ''
  const stderr = {
    ...{ isTTY: true, columns: 120, on: () => stderr },
    write: (text: string | Uint8Array) => {
      drawn += String(text)
      return true
    },
  }
  const config = ['north', 'south'].map((name) => ({
    ...{ name, baseUrl, apiKey: `key ${name}`, apiSecret: 'secret' },
  }))
  await runProgram(words, {
    env: { ...configOf(config as never), DATABASE_URL: warehouse.url, LOG_LEVEL: 'silent' },
    ...{ stdout: { write: () => true }, stderr, version: '0.0.0' },
    signal: new AbortController().signal,
  })
  const bars = stripVTControlCharacters(drawn).matchAll(/(\S+) +[^\s\w]+ (\d+)\/(\d+) records/g)
  return Object.fromEntries([...bars].map(([, name, value, total]) => [name, `${value}/${total}`]))
}

it.each([
  ['backfill', '2/5', '3/4'],
  ['verify', '2/5', '3/4'],
  // A replay does not know how many there are.
  ['replay', '2/2', '3/3'],
])(
  '%s on a terminal shows each stream of each team, or each stream of the one that is named',
  async (name, north, south) => {
    expect(await barsOf([name], ['north', 'south'])).toEqual({
      ...{ 'north/forms': north, 'south/forms': south, 'south/packets': '7/7' },
    })
    expect(await barsOf([name, '--team', 'south'], ['south'])).toEqual({ forms: south, packets: '7/7' })
  },
)

it('an upload on a terminal shows how many patients the service has read of all', async () => {
  const state = { id: 'u', status: 'completed', total_rows: 9, processed_rows: 7 }
  await using service = await startService((_, response) => json(response, state, 201))
  const folder = makeFolder('bars-')
  const file = join(folder, 'people.csv')
  writeFileSync(file, 'first_name,last_name\nAnn,Lee\n')
  const bars = await barsOf(['patients', 'upload', file, '--team', 'north'], [], service.url)
  removeFolder(folder)
  expect(bars).toEqual({ patients: '7/9' })
})

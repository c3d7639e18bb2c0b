import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Emulator, startEmulator } from '../../../../src/emulator/server.ts'
import { bytesInUse } from '../../../support/garbage.ts'
import { startOwnTime } from '../../../support/own-time.ts'
import { type Caller, callerOf } from '../../caller.ts'
import { askFor, exportNamed } from './exporting.ts'

const MEGABYTE = 1024 * 1024
/** Of them, every eleventh is one of the form whose export is asked for. */
const RESPONSES = 400_000

let emulator: Emulator
let caller: Caller
let id: string

beforeAll(async () => {
  emulator = await startEmulator({ port: 0, patients: 1_000_000, responses: RESPONSES })
  caller = callerOf(emulator)
  id = (await exportNamed(caller, 'Medication list')).id
})
afterAll(() => emulator.close())

function begin(signal?: AbortSignal): Promise<Response> {
  return fetch(`${caller.baseUrl}/v2/export-csv?type=json`, {
    method: 'POST',
    headers: { ...caller.credentials, 'X-API-VERSION': 'v2.1' },
    body: JSON.stringify({ id }),
    ...(signal === undefined ? {} : { signal }),
  })
}

describe('a long export', () => {
  it('takes almost no memory, and other requests are answered meanwhile', async () => {
    const started = bytesInUse()
    const most: number[] = []
    const answeredThen: number[] = []
    let [seen, measured, answered] = [0, 0, 0]
    let done = false
    const others = (async () => {
      for (; !done; answered += 1) await caller.get('/v2/patients?page_size=1')
    })()
    for await (const piece of (await begin()).body!) {
      seen += piece.length
      if (seen < measured + 10 * MEGABYTE) continue
      measured = seen
      most.push(bytesInUse() - started)
      answeredThen.push(answered)
    }
    done = true
    await others
    expect(seen).toBeGreaterThan(35 * MEGABYTE)
    expect(most.length).toBeGreaterThan(2)
    expect(Math.max(...most)).toBeLessThan(12 * MEGABYTE)
    // At least one between any two of these moments, however fast either is.
    expect(new Set([0, ...answeredThen]).size).toBe(most.length + 1)
  })

  it('waits for its reader, and is abandoned when the reader disconnects', async () => {
    const { responses } = emulator.control.world()
    let made = 0
    const at = responses.at.bind(responses)
    responses.at = (index) => {
      made += 1
      return at(index)
    }
    const settled = async () => {
      for (let before = -1; before !== made; ) {
        before = made
        using time = startOwnTime()
        while (time.milliseconds < 300) await new Promise((resolve) => setTimeout(resolve, 10))
      }
      return made
    }
    const stop = new AbortController()
    const reader = (await begin(stop.signal)).body!.getReader()
    await reader.read()
    const ahead = await settled()
    expect(ahead).toBeLessThan(RESPONSES / 20)
    stop.abort()
    expect((await settled()) - ahead).toBeLessThan(1000)
    responses.at = at
  })
})

describe('a fault on an export', () => {
  const ask = (type: string) => askFor(caller, small, 'v2.1', type)
  let small: string
  let whole: string

  beforeAll(async () => {
    const form = emulator.control.addForm({ name: 'Few', questions: [{ type: 'short_text', text: 'Q' }] })
    small = (await exportNamed(caller, form.name)).id
    whole = (await ask('raw_text')).text
  })
  const strike = (fault: string) => emulator.control.failNext('/v2/export-csv', fault)

  it('truncates, damages or slows it, as any body', async () => {
    strike('cut-json')
    expect((await ask('raw_text')).text).toBe(whole.slice(0, Math.floor(whole.length / 2)))
    strike('corrupt-json')
    expect((await ask('json')).body).toBeUndefined()
    strike('invalid-utf8')
    expect((await ask('raw_text')).text).toMatch(/^Client ID,.*\ufffd.*\r\n$/)
    strike('drip=1')
    expect((await ask('download_file')).text).toBe(whole)
    strike('truncate')
    await expect(ask('raw_text')).rejects.toThrow()
    strike('html-502')
    expect((await ask('raw_text')).status).toBe(502)
    strike('slow=1')
    expect((await ask('raw_text')).text).toBe(whole)
  })
})

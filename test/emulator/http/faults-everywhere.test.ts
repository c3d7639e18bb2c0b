/**
 * Compares what each fault makes of each kind of request with test/emulator/recorded: the answer, its entry in the log, and
 * what the request changed. After an intended change, `npx vitest run test/emulator/http/faults-everywhere.test.ts -u`
 * updates the recording; read the difference before you commit it.
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { FAULTS, type FaultName, isWebhookFault } from '../../../src/emulator/faults.ts'
import { interrupt } from '../../../src/emulator/http/strike.ts'
import { startEmulator } from '../../../src/emulator/server.ts'
import { callerOf } from '../caller.ts'

const RECORDED = join(import.meta.dirname, '..', 'recorded', 'faults.txt')
const NOW = Date.parse('2026-03-01T12:00:00.5Z') * 1000

type Ask = readonly [method: string, path: string, body?: object]
const REQUESTS: readonly Ask[] = [
  ['GET', '/v2/patients?page=2&page_size=2'],
  ['GET', '/v2/patients?limit=2&offset=3'],
  ['GET', '/v2/forms/FORM'],
  ['GET', '/v2/patients/nobody'],
  ['POST', '/v2/patients', { first_name: 'Žoë', last_name: 'Lee' }],
  ['POST', '/v2/patients', { first_name: 'Žoë' }],
  ['PATCH', '/v2/patients/PATIENT', { city: 'Ulm' }],
  ['DELETE', '/v2/patients/PATIENT'],
  ['POST', '/v2/export-csv', { id: 'EXPORT' }],
  ['POST', '/v2/export-csv?type=raw_text', { id: 'EXPORT' }],
  ['PUT', '/v2/forms'],
]
const FEW = [0, 2, 4, 7, 9].map((at) => REQUESTS[at]!)
/** With arguments, where a fault has one, and in pairs. */
const FURTHER = [
  ...[
    'throttle=1:2.5',
    'throttle-burst=1',
    'http-503=1:0',
    'redirect=slash',
    'wrong-count=-99',
    'clock-skew=-0.75',
  ],
  ...[
    'drop-rows,duplicate-rows',
    'repeat-page,shift-rows',
    'next-loop,next-elsewhere',
    'cut-json,corrupt-json',
  ],
  ...['corrupt-json,invalid-utf8', 'truncate,drip', 'slow=5,http-500', 'slow=5,cut-json', 'drip=5,cut-json'],
  ...[
    'drip=5,wrong-count',
    'html-502,wrong-count',
    'http-500@patients',
    'http-500@export-csv',
    'slow=1,slow=2',
  ],
]
const HEADERS = ['content-type', 'content-length', 'retry-after', 'location', 'allow', 'content-disposition']

const digestOf = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 8)

it('each fault makes of each request what it did', async () => {
  const waits: number[] = []
  const sleep = async (milliseconds: number) => void waits.push(milliseconds)
  const sizes = { patients: 6, forms: 1, packets: 1, documents: 1, responses: 4 }
  await using emulator = await startEmulator({ port: 0, clock: { now: () => NOW, sleep }, ...sizes })
  const { control, environments } = emulator
  const { credentials, baseUrl, rows } = callerOf(emulator)
  const world = control.world()
  const ids = { FORM: world.forms.at(0)!.id, EXPORT: (await rows('/v2/export-csv'))[0].id as string }
  const plain = (text: string) =>
    environments.reduce((rest, { name, base_url }) => rest.replaceAll(base_url, `https://${name}`), text)

  const newest = () => world.patients.slice(0, 1, true)[0]!.id

  async function ask([method, path, body]: Ask, faults: string): Promise<string> {
    control.setFaults('')
    control.resetCounters()
    // The same one again, whatever became of the last.
    const { id } = control.createPatient({ first_name: 'A', last_name: 'B' })
    const filled = (text: string) =>
      text.replace('PATIENT', id).replace('FORM', ids.FORM).replace('EXPORT', ids.EXPORT)
    const before = world.patients.size
    control.setFaults(faults)
    const stop = new AbortController()
    // Nobody waits for an answer that never comes.
    if (faults === 'hang') {
      const came = expect.poll(() => control.requests().length, { interval: 1 }).toBe(1)
      void came.then(() => void (control.requests()[0]!.status === 0 && stop.abort()))
    }
    const answer = await fetch(baseUrl + filled(path), {
      ...{ method, headers: credentials, redirect: 'manual' },
      signal: stop.signal,
      ...(body === undefined ? {} : { body: filled(JSON.stringify(body)) }),
    })
      .then(async (reply) => {
        const headers = HEADERS.flatMap((name) => reply.headers.get(name) ?? [])
        const text = plain(Buffer.from(await reply.arrayBuffer()).toString('latin1'))
        const named = text.replaceAll(id, 'ID').replaceAll(newest(), 'NEW')
        const shown = named.length > 100 ? digestOf(named) : named
        const date = reply.headers.get('date')?.slice(-12)
        return [reply.status, date, reply.headers.get('x-service-environment'), ...headers, shown].join(' ')
      })
      .catch(() => 'no answer')
    for (let left = 3; left > 0; left -= 1) await turn()
    const [noted] = control.requests()
    const changes = [world.patients.size - before, world.patients.get(id)?.city ?? 'gone'].join(' ').trim()
    for (const { id: made } of world.patients.slice(6, 99)) control.deletePatient(made)
    const waited = waits.splice(0)
    return `${plain(answer)} | logged ${noted?.status}, ${changes}${waited.length > 0 ? ` | waited ${waited}` : ''}`
  }

  const lines: string[] = []
  const usual = new Map<Ask, string>()
  const faults = Object.keys(FAULTS).filter((name) => !isWebhookFault(name))
  for (const fault of ['', ...faults, ...FURTHER]) {
    const answers = new Map<string, string[]>()
    for (const one of FURTHER.includes(fault) ? FEW : REQUESTS) {
      const answer = await ask(one, fault)
      if (fault === '') usual.set(one, answer)
      const seen = fault !== '' && answer === usual.get(one) ? 'as usual' : answer
      answers.set(seen, [...(answers.get(seen) ?? []), one.slice(0, 2).join(' ')])
    }
    lines.push(`# ${fault}`, ...[...answers].map(([answer, all]) => `${all.join(', ')}\n  ${answer}`))
  }
  await expect(`${lines.join('\n')}\n`).toMatchFileSnapshot(RECORDED)
})

it('of two faults that replace the answer the same one always does, whatever their order', () => {
  const names: FaultName[] = [
    ...(['reset', 'hang', 'throttle', 'throttle-burst', 'throttle-silent', 'http-500', 'http-503'] as const),
    ...(['html-502', 'html-504', 'html-200', 'empty-body', 'redirect'] as const),
  ]
  const of = (...faults: FaultName[]) =>
    interrupt(new Map(faults.map((name) => [name, null])), '/v2/forms?a=b', 'http://there')
  for (const [at, strong] of names.entries()) {
    expect(of(strong)).toBeDefined()
    for (const weak of names.slice(at + 1)) {
      expect([strong, weak, of(weak, strong)]).toEqual([strong, weak, of(strong)])
      expect([strong, weak, of(strong, 'slow', weak)]).toEqual([strong, weak, of(strong)])
    }
  }
  for (const harmless of ['slow', 'drip', 'truncate', 'cut-json', 'next-loop', 'wrong-count'] as const)
    expect(of(harmless)).toBeUndefined()
})

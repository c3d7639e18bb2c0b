/** Faults without an argument do what their descriptions say; a clock that does not wait notes how long they would. */
import { expect, it } from 'vitest'
import { Bursts, fire, fireWebhook, parseFaults } from '../../src/emulator/faults.ts'
import { damage } from '../../src/emulator/http/strike.ts'
import { type EmulatorOptions, startEmulator } from '../../src/emulator/server.ts'
import { callerOf } from './caller.ts'
import { startReceiver } from './receiver.ts'

/** A clock that notes each wait and ends it at once. */
function impatient() {
  const waits: number[] = []
  const clock: NonNullable<EmulatorOptions['clock']> = {
    now: () => performance.timeOrigin * 1000 + Math.round(performance.now() * 1000),
    sleep: async (milliseconds) => void waits.push(milliseconds),
  }
  return { clock, waits: () => waits.splice(0) }
}

it('answers that come late come after a second, or in ten pieces a fifth of a second apart', async () => {
  const { clock, waits } = impatient()
  await using emulator = await startEmulator({ port: 0, patients: 3, clock })
  const ask = async (faults: string) => {
    emulator.control.setFaults(faults)
    return await callerOf(emulator).get('/v2/patients')
  }
  await ask('slow')
  expect(waits()).toEqual([1000])
  await ask('slow=7')
  expect(waits()).toEqual([7])
  const { body, headers } = await ask('drip')
  expect(waits()).toEqual(Array(9).fill(200))
  expect(body.count).toBe(3)
  await ask('drip=3')
  expect(waits()).toEqual(Array(9).fill(3))
  // Otherwise it is the answer that it would have been.
  const { headers: usual } = await ask('')
  for (const name of ['content-type', 'x-service-environment', 'content-length'])
    expect([name, headers.get(name)?.split(';')[0]]).toEqual([name, usual.get(name)?.split(';')[0]])
  expect(Date.parse(headers.get('date')!)).toBeLessThanOrEqual(Date.parse(usual.get('date')!))
  const { requests } = emulator.control
  await expect.poll(() => requests().map(({ status }) => status)).toEqual([200, 200, 200, 200, 200])
  await expect(ask('truncate')).rejects.toThrow()
  expect(requests().at(-1)!.status).toBe(0)
})

it('refusals name a second, or the given time in whole seconds, rounded up', async () => {
  await using emulator = await startEmulator({ port: 0, patients: 3 })
  const ask = async (faults: string) => {
    emulator.control.setFaults(faults)
    const { status, headers, body } = await callerOf(emulator).get('/v2/patients')
    return [status, headers.get('retry-after'), body.detail]
  }
  const throttled = (seconds: number) => `Request was throttled. Expected available in ${seconds} seconds.`
  expect(await ask('throttle')).toEqual([429, '1', throttled(1)])
  expect(await ask('throttle=1:2.1')).toEqual([429, '3', throttled(3)])
  expect(await ask('throttle-silent')).toEqual([429, null, 'Request was throttled.'])
  expect(await ask('http-503')).toEqual([503, '1', 'Service unavailable.'])
  expect(await ask('http-503=1:0.5')).toEqual([503, '1', 'Service unavailable.'])
  expect(await ask('http-503=30')).toEqual([503, '30', 'Service unavailable.'])
  emulator.control.setFaults('wrong-count')
  expect((await callerOf(emulator).get('/v2/patients')).body.count).toBe(10)
  emulator.control.setFaults('redirect=slash')
  const location = async (query: string) =>
    (await callerOf(emulator).get(`/v2/patients${query}`)).headers.get('location')
  expect([await location(''), await location('?search=a?b&page=2')]).toEqual([
    ...['/v2/patients/', '/v2/patients/?search=a?b&page=2'],
  ])
  emulator.control.setFaults('none')
  expect(emulator.control.faults()).toEqual([])
})

it('a burst refuses ten requests, and begins anew only where it applies again', () => {
  const rules = parseFaults('throttle-burst@forms')
  const [bursts, begun, none] = [new Bursts(), new Map([['throttle-burst', null]] as const), new Map()]
  for (let round = 0; round < 2; round += 1) {
    expect(bursts.goOn(rules, begun, '/v2/forms').has('throttle-burst')).toBe(true)
    const going = Array.from({ length: 10 }, () =>
      bursts.goOn(rules, none, '/v2/forms').has('throttle-burst'),
    )
    expect(going).toEqual([...Array(9).fill(true), false])
  }
  expect(bursts.goOn(rules, none, '/v2/patients')).toBe(none)
})

it('a burst has the length of its own rule, whatever other faults apply, and ends with its rule', () => {
  const rules = parseFaults('slow=7,throttle-burst=3,throttle-burst@forms=2')
  const bursts = new Bursts()
  const begun = new Map([
    ['slow', '7'],
    ['throttle-burst', '3'],
  ] as const)
  expect(bursts.goOn(rules, begun, '/v2/patients')).toEqual(begun)
  const slow = new Map([['slow', '7']] as const)
  const going = Array.from({ length: 3 }, () => bursts.goOn(rules, slow, '/v2/patients'))
  expect(going).toEqual([new Map([...slow, ['throttle-burst', '3']]), going[0], slow])
  expect(bursts.goOn(rules, begun, '/v2/patients').get('throttle-burst')).toBe('3')
  expect(bursts.goOn(parseFaults('slow=7,throttle-burst=3'), slow, '/v2/patients')).toBe(slow)
  expect(new Bursts().goOn(parseFaults('throttle-burst=1'), begun, '/v2/forms').has('throttle-burst')).toBe(
    true,
  )
})

it('events are delayed for a second, and an acknowledged one is sent again half a second later', async () => {
  const { clock, waits } = impatient()
  await using emulator = await startEmulator({ port: 0, patients: 1, clock })
  await using receiver = await startReceiver()
  await callerOf(emulator).send('POST', '/v2/webhooks', { target_url: receiver.url })
  const send = async (faults: string) => {
    emulator.control.setFaults(faults)
    emulator.control.createPatient({ first_name: 'A', last_name: 'B' })
    await emulator.control.webhooks().idle()
    return receiver.deliveries.splice(0).length
  }
  expect([await send('webhook-delay'), waits()]).toEqual([1, [1000]])
  expect([await send('webhook-rerender'), waits()]).toEqual([2, [500]])
})

it('a fault of one resource covers its list and its records, and no path that only begins like it', () => {
  const rules = parseFaults('http-500@patients,webhook-drop@form')
  const hit = (path: string) => fire(rules, '1', 1, path).has('http-500')
  expect(['/v2/patients', '/v2/patients/x', '/v2/patients/x/y'].map(hit)).toEqual([true, true, true])
  expect(['/v2/patient', '/v2/patients-x', '/v2/forms', '/patients', '/v2'].map(hit)).toEqual(
    Array(5).fill(false),
  )
  const dropped = ['form', 'packet', 'forms'].map((source) => fireWebhook(rules, '1', 1, source).size)
  expect(dropped).toEqual([1, 0, 0])
})

it('a fault applies about as often as its probability says, and never or always at its ends', () => {
  const times = (spec: string) =>
    Array.from({ length: 1000 }, (_, nth) => fire(parseFaults(spec), '1', nth, '/v2/forms').size).filter(
      Boolean,
    ).length
  expect([times('reset=0'), times('reset=1'), times('reset')]).toEqual([0, 1000, 1000])
  expect(times('reset=0.2')).toBeGreaterThan(150)
  expect(times('reset=0.2')).toBeLessThan(250)
})

it('a skew is seconds, also where they are a share', () => {
  expect(parseFaults('clock-skew=0.5')).toMatchObject([{ probability: 1, argument: '0.5' }])
  expect(parseFaults('slow=0.5')).toMatchObject([{ probability: 0.5, argument: null }])
  expect(() => parseFaults('slow=0.5:')).toThrow(RangeError)
})

it.each([
  ['cut-json', '{"a":1}', '{"a'],
  ['corrupt-json', '{"a":1}', '!"a":1}'],
  ['invalid-utf8', '[{"last_name":"Lee","text":"x"}]', '[{"last_name":"\x96ee","text":"x"}]'],
  ['invalid-utf8', '{"text":"Why?"}', '{"text":"\x96hy?"}'],
  // Nothing is damaged where there is no text, so that the body stays JSON.
  ['invalid-utf8', '{"text":""}', '{"text":""}'],
  ['invalid-utf8', '{"n":1}', '{"n":1}'],
  ['invalid-utf8', 'Client ID,Ann Lee\r\n', 'Client ID,A\x96n Lee\r\n'],
])('%s makes of %s: %s', (fault, body, damaged) => {
  expect(damage(new Map([[fault, null]]) as never, body).toString('latin1')).toBe(damaged)
})

it('a specification is read part by part; blanks around a part, empty parts and "none" are no faults', () => {
  expect(
    parseFaults(' slow=5 , none,, http-500@forms=0.5 ,webhook-delay@form=1:7,clock-skew=1,hang=,drip=0:9'),
  ).toEqual([
    { name: 'slow', resource: null, probability: 1, argument: '5' },
    { name: 'http-500', resource: 'forms', probability: 0.5, argument: null },
    { name: 'webhook-delay', resource: 'form', probability: 1, argument: '7' },
    { name: 'clock-skew', resource: null, probability: 1, argument: '1' },
    { name: 'hang', resource: null, probability: 1, argument: null },
    { name: 'drip', resource: null, probability: 0, argument: '9' },
  ])
})

it('of several rules for one fault the last one that covers a request decides', () => {
  const argument = (spec: string, path: string) => fire(parseFaults(spec), '1', 1, path).get('slow')
  const both = (spec: string) => ['/v2/patients', '/v2/forms'].map((path) => argument(spec, path))
  expect(both('slow=11,slow@patients=22')).toEqual(['22', '11'])
  expect(both('slow@patients=22,slow=11')).toEqual(['11', '11'])
  expect(both('slow=11,slow@patients=0:22')).toEqual(['11', '11'])
  expect(both('slow@patients=22')).toEqual(['22', undefined])
  const drawn = (spec: string) =>
    Array.from({ length: 200 }, (_, nth) => [...fire(parseFaults(spec), '1', nth, '/v2/forms').keys()].join())
  // Each is drawn for itself: sometimes both apply, or one, or none.
  expect(new Set(drawn('slow=0.5,hang=0.5'))).toEqual(new Set(['', 'slow', 'hang', 'slow,hang']))
  expect(drawn('slow=0.5,hang=0.5')).not.toEqual(drawn('hang=0.5,slow=0.5'))
})

it.each([
  [
    'lightning',
    /^no fault is named "lightning"; there are throttle, throttle-burst, throttle-silent, http-500, .*, webhook-off$/,
  ],
  ['webhook-drop@patients', /^"patients" in "webhook-drop@patients" is not a source of events$/],
  ['slow=2:7', /^"2" in "slow=2:7" is not a probability from 0 to 1$/],
  ['slow=-1:7', /^"-1" in "slow=-1:7" is not a probability from 0 to 1$/],
  ['slow=x:7', /^"x" in "slow=x:7" is not a probability from 0 to 1$/],
  [
    'slow=0.1:',
    /^"" is not a value of the fault "slow": waits before answering; argument: milliseconds \(1000\)$/,
  ],
  ['slow=0.1: ', /^"" is not a value of the fault "slow"/],
  ['slow=0.1:1:2', /^"1:2" is not a value of the fault "slow"/],
  ['slow=Infinity', /^"Infinity" is not a value of the fault "slow"/],
  ['hang=7', /^"7" is not a value of the fault "hang": takes the request and never answers$/],
  ['redirect=7', /^"7" is not a value of the fault "redirect"/],
])('the specification %s is refused with the reason', (spec, reason) => {
  expect(() => parseFaults(`slow=1,${spec}`)).toThrow(reason)
})

/** The options of the emulator: their defaults, and the values that they refuse. */
import { expect, it } from 'vitest'
import {
  completeOptions,
  type EmulatorOptions,
  parseRateLimit,
  rateLimitOf,
} from '../../src/emulator/options.ts'

it('without options there is a small clinic, whose service limits and disturbs nothing', () => {
  expect(completeOptions({})).toMatchObject({
    ...{ port: 4010, seed: '1', pageSize: 100, rateLimit: null, faults: [], activity: 0, timeScale: 1 },
    sizes: { patients: 200, forms: 12, packets: 4, documents: 4, responses: 400 },
    ...{ importPatients: undefined, importQuestionnaires: undefined, importSurvey: [] },
    ...{ allowRemoteWebhooks: false, webhookTimeoutMs: 10_000 },
  })
  expect(completeOptions({}).shape.names).toEqual([])
})

it.each<[keyof EmulatorOptions, unknown, unknown]>([
  ['port', 65_534, 65_535],
  ['port', 0, -1],
  ...(['patients', 'forms', 'packets', 'documents', 'responses'] as const).flatMap(
    (size): [keyof EmulatorOptions, unknown, unknown][] => [
      [size, 0, -1],
      [size, 2 ** 31, 2 ** 31 + 1],
      [size, 3, 2.5],
    ],
  ),
  ['pageSize', 1, 0],
  ['pageSize', 100_000, 100_001],
  ['webhookTimeoutMs', 1, 0],
  ['webhookTimeoutMs', 600_000, 600_001],
  ['activity', 0, -0.1],
  ['timeScale', 0.001, 0],
  ['timeScale', 1e9, Number.POSITIVE_INFINITY],
  ['activity', 0.1, Number.NaN],
  ['shape', 'cursor+no-count', 'cursor+round'],
  ['faults', 'reset=0.5', 'reset=5'],
  ['importPatients', 'a.csv', ''],
  ['importQuestionnaires', 'a', ''],
  ['importSurvey', 'a.csv', ''],
  ['apiKey', 'k', ''],
  ['apiSecret', 's', ''],
  ['importSurvey', ['a.csv'], ['a.csv', '']],
  ['rateLimit', { requests: 1, seconds: 0.1 }, { requests: 0.5, seconds: 1 }],
  ['rateLimit', 0.1, 0],
  ['rateLimit', { requests: 1, seconds: 1 }, { requests: 1, seconds: 0 }],
])('%s may be %j, and not %j', (option, most, more) => {
  expect(completeOptions({ [option]: most })).toBeDefined()
  const name = option.replaceAll(/[A-Z]/g, (capital) => `-${capital.toLowerCase()}`)
  expect(() => completeOptions({ [option]: more })).toThrow(`--${name}: `)
})

it('options that are given stand for what is otherwise chosen', () => {
  const clock = { now: () => 0, sleep: async () => {} }
  const sizes = { patients: 1, forms: 2, packets: 3, documents: 4, responses: 5 }
  const others = {
    ...{ port: 4020, apiKey: 'k', apiSecret: 's', pageSize: 6, activity: 7.5, timeScale: 8 },
    ...{ importPatients: 'p.csv', importQuestionnaires: 'q', allowRemoteWebhooks: true, webhookTimeoutMs: 9 },
    ...{ rateLimit: { requests: 10, seconds: 11 }, clock },
  }
  const { shape, ...complete } = completeOptions({
    ...{ ...sizes, ...others, seed: 12, shape: 'cursor', faults: 'slow=13', importSurvey: 's.csv' },
  })
  expect(shape.names).toEqual(['cursor'])
  expect(complete).toEqual({
    ...{ ...others, seed: '12', sizes, importSurvey: ['s.csv'] },
    faults: [{ name: 'slow', probability: 1, argument: '13', resource: null }],
  })
})

it('an option that is refused is named, with what it may be', () => {
  const refusal = (options: EmulatorOptions) => {
    try {
      return completeOptions(options)
    } catch (error) {
      return error
    }
  }
  const refusals = [
    { port: 70_000 },
    { activity: -1 },
    { timeScale: 0 },
    { apiKey: '' },
    { rateLimit: -1 },
    { rateLimit: { requests: Number.NaN, seconds: 1 } },
    { shape: 'round' },
    { faults: 'webhook-drop@moon' },
  ].map(refusal)
  expect(refusals).toMatchObject([
    {
      name: 'EmulatorOptionError',
      option: 'port',
      message: '--port: must be a whole number from 0 to 65534',
    },
    { option: 'activity', message: '--activity: must be a number not below 0' },
    { option: 'time-scale', message: '--time-scale: must be a number above 0' },
    { option: 'api-key', message: '--api-key: must not be empty' },
    { option: 'rate-limit', message: '--rate-limit: must be a number above 0' },
    { option: 'rate-limit', message: '--rate-limit: must be more than 0' },
    { option: 'shape', message: expect.stringContaining('round') },
    { option: 'faults', message: '--faults: "moon" in "webhook-drop@moon" is not a source of events' },
  ])
})

it('a rate is requests in seconds, in minutes or in hours', () => {
  expect(['7', '7/s', '7/m', '7/h', ' 7/h '].map(parseRateLimit)).toEqual(
    [1, 1, 60, 3600, 3600].map((seconds) => ({ requests: 7, seconds })),
  )
  expect(['2.5', '2.5/s', '12.25/m', '0.5/h'].map(parseRateLimit)).toEqual(
    [0.4, 0.4, 60 / 12.25, 7200].map((seconds) => ({ requests: 1, seconds })),
  )
  for (const text of ['', 'x', '7/d', '-7', '7/', '1e3', 'x7', '7x', '7/sx', '.5', '5.', '1.2.3'])
    expect([text, parseRateLimit(text)]).toEqual([text, undefined])
  expect([rateLimitOf(4), rateLimitOf(0.25), rateLimitOf(null)]).toEqual([
    { requests: 4, seconds: 1 },
    { requests: 1, seconds: 4 },
    null,
  ])
})

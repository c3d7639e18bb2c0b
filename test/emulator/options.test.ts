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
  ['patients', 0, -1],
  ['responses', 2 ** 31, 2 ** 31 + 1],
  ['pageSize', 1, 0],
  ['pageSize', 100_000, 100_001],
  ['webhookTimeoutMs', 1, 0],
  ['webhookTimeoutMs', 600_000, 600_001],
  ['activity', 0, -0.1],
  ['timeScale', 0.001, 0],
  ['timeScale', 1e9, Number.POSITIVE_INFINITY],
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

it('a rate is requests in seconds, in minutes or in hours', () => {
  expect(['7', '7/s', '7/m', '7/h', ' 7/h '].map(parseRateLimit)).toEqual(
    [1, 1, 60, 3600, 3600].map((seconds) => ({ requests: 7, seconds })),
  )
  expect(['', 'x', '7/d', '-7', '7/', '1e3'].map(parseRateLimit)).toEqual(Array(6).fill(undefined))
  expect([rateLimitOf(4), rateLimitOf(0.25), rateLimitOf(null)]).toEqual([
    { requests: 4, seconds: 1 },
    { requests: 1, seconds: 4 },
    null,
  ])
})

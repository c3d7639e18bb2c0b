/** Options of the emulator: each reaches the part that it names, and what was not given stays the emulator's default. */
import { expect, it } from 'vitest'
import { type Flags, optionsOf } from '../../../src/commands/run/emulator.ts'

const DEFAULTS: Flags = { port: '4010', seed: '1' }

it('only given options are passed on, as numbers and rates', () => {
  expect(optionsOf({ ...DEFAULTS, json: true })).toEqual({ port: 4010, seed: '1' })
  const given = {
    patients: '3',
    responses: '0',
    pageSize: '7',
    rateLimit: '600/m',
    activity: '30/m',
    timeScale: '2.5',
  }
  expect(optionsOf({ ...DEFAULTS, ...given, shape: 'bare', apiKey: 'k', allowRemoteWebhooks: true })).toEqual(
    {
      ...{ port: 4010, seed: '1', patients: 3, responses: 0, pageSize: 7, activity: 0.5, timeScale: 2.5 },
      ...{ rateLimit: { requests: 600, seconds: 60 }, shape: 'bare', apiKey: 'k', allowRemoteWebhooks: true },
    },
  )
})

it.each([
  [{ port: '' }, '--port'],
  [{ patients: 'many' }, '--patients'],
  [{ responses: 'NaN' }, '--responses'],
  [{ pageSize: 'Infinity' }, '--page-size'],
  [{ rateLimit: 'fast' }, '--rate-limit'],
  [{ activity: 'fast' }, '--activity'],
  [{ timeScale: 'x' }, '--time-scale'],
])('%j is named as wrong', (flags, variable) => {
  expect(() => optionsOf({ ...DEFAULTS, ...flags })).toThrow(expect.objectContaining({ variable }))
})

/** Options that several commands have: what is accepted, what it means, and what is said of a mistake. */
import { InvalidArgumentError } from 'commander'
import { expect, it } from 'vitest'
import { parseDuration, requireStream, streamsNamed, wholeNumber } from '../../src/commands/options.ts'
import { STREAMS } from '../../src/streams/catalogue.ts'

it('counts are whole numbers from 1 to 999999', () => {
  expect(['1', '10', '999999'].map(wholeNumber)).toEqual([1, 10, 999_999])
  for (const text of ['0', '01', '1000000', '1.5', '-1', '1e3', '', ' 1'])
    expect(() => wholeNumber(text), text).toThrow(InvalidArgumentError)
})

it('durations have a unit, or are seconds', () => {
  const texts = ['30', '30s', '1.5m', '1.25m', '26h', '2d', ' 90m ', '0']
  expect(texts.map(parseDuration)).toEqual([30, 30, 90, 75, 93_600, 172_800, 5_400, 0])
  for (const text of ['', 'h', '3x', '-1h', '1h30m', '1.h', '.5h', '1w'])
    expect(() => parseDuration(text), text).toThrow(InvalidArgumentError)
})

it('streams come in the order of the catalogue, each once, however they are named; all without a name', () => {
  const names = (text?: string) => streamsNamed(text, STREAMS).map(({ name }) => name)
  const all = STREAMS.map(({ name }) => name)
  expect(names()).toEqual(all)
  expect(names(` ${all[2]}, ${all[0]},${all[2]}`)).toEqual([all[0], all[2]])
  for (const text of ['', 'forms,', 'forms,x'])
    expect(() => names(text)).toThrow(
      expect.objectContaining({
        message: `unknown stream "${text.split(',').at(-1)}"`,
        variable: '--streams',
      }),
    )
})

it.each([
  ['patient', 'patients'],
  ['paitents', 'patients'],
  ['Webhook-Config', 'webhook_configs'],
  ['webhook-confi', 'webhook_configs'],
  ['ptient', 'patients'],
  ['form', 'forms'],
])('%s is no stream, and %s was meant', (name, meant) => {
  const known = STREAMS.map((stream) => stream.name)
  const hint = expect.stringMatching(new RegExp(`^did you mean ${meant}\\? the streams are: `))
  expect(() => requireStream(name, known, '--streams')).toThrow(expect.objectContaining({ hint }))
})

it('where several names are near, each is proposed', () => {
  const known = ['forms', 'farms', 'people']
  expect(() => requireStream('form', known, '--stream')).toThrow(
    expect.objectContaining({ hint: 'did you mean forms or farms? the streams are: forms, farms, people' }),
  )
})

it('where no name is near, none is proposed', () => {
  const known = ['patients', 'forms']
  for (const name of ['ptint', 'xforms12', 'people'])
    expect(() => requireStream(name, known, '--stream')).toThrow(
      expect.objectContaining({
        ...{ hint: 'the streams are: patients, forms', variable: '--stream', code: 'unknown_stream' },
      }),
    )
  expect(requireStream('forms', known, '--stream')).toBeUndefined()
})

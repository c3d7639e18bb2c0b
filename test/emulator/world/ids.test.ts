import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { IdSpace, isUuid, keyOf } from '../../../src/emulator/world/draw.ts'
import { Table } from '../../../src/emulator/world/table.ts'

const anyIndex = fc.nat({ max: 2 ** 32 - 1 })
const anyName = fc.string({ maxLength: 8 })

describe('an id', () => {
  it('is a UUID that leads back to its index in its own space only', () => {
    fc.assert(
      fc.property(anyName, anyName, anyIndex, (one, other, index) => {
        const space = new IdSpace(keyOf('ids', one))
        const id = space.idAt(index)
        expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
        expect(space.indexOf(id)).toBe(index)
        expect(space.indexOf(id.toUpperCase())).toBe(index)
        expect(space.withPrefix(id.replaceAll('-', '').slice(0, 15))).toBe(id)
        const [prefix, last] = [id.replaceAll('-', '').slice(0, 11), id.replaceAll('-', '')[11]]
        expect(space.withPrefix(prefix + (last === '0' ? '1' : '0'))).toBeUndefined()
        if (one !== other) expect(new IdSpace(keyOf('ids', other)).indexOf(id)).toBeUndefined()
      }),
    )
  })

  it('belongs to one record only, among a million', () => {
    const space = new IdSpace(keyOf('million'))
    const ids = new Set<string>()
    for (let index = 0; index < 1_000_000; index += 7) ids.add(space.idAt(index))
    expect(ids.size).toBe(Math.ceil(1_000_000 / 7))
  })

  it('that is malformed has no index', () => {
    fc.assert(
      fc.property(fc.string(), (text) => void expect(new IdSpace(keyOf('x')).indexOf(text)).toBeUndefined()),
    )
  })
})

it('a UUID may have upper-case digits, and has nothing before or after it', () => {
  const id = new IdSpace(keyOf('uuid')).idAt(0)
  expect([id, id.toUpperCase()].map(isUuid)).toEqual([true, true])
  const others = [` ${id}`, `${id}\n`, `${id}0`, id.slice(1), id.replaceAll('-', ''), `g${id.slice(1)}`, '']
  expect(others.filter(isUuid)).toEqual([])
})

type Step = { do: 'create' } | { do: 'update' | 'remove'; at: number }

const anySteps = fc.array(
  fc.oneof(
    fc.record({ do: fc.constant('create' as const) }),
    fc.record({ do: fc.constantFrom('update' as const, 'remove' as const), at: fc.nat({ max: 60 }) }),
  ) as fc.Arbitrary<Step>,
  { maxLength: 40 },
)

describe('a table', () => {
  it('lists, pages, scans and finds like a plain array, after any creations, changes and deletions', () => {
    fc.assert(
      fc.property(anySteps, fc.integer({ min: 1, max: 9 }), (steps, size) => {
        type Item = { id: string; text: string }
        const ids = new IdSpace(keyOf('table'))
        const make = (index: number): Item => ({ id: ids.idAt(index), text: `seeded ${index}` })
        const table = new Table<Item>(ids, 20, make, () => {})
        const model = Array.from({ length: 20 }, (_, index) => make(index))
        steps.forEach((step, turn) => {
          if (step.do === 'create') model.push(table.create((id) => ({ id, text: `created ${turn}` })))
          else if (model.length > 0) {
            const at = step.at % model.length
            const { id } = model[at]!
            if (step.do === 'remove') {
              table.remove(id)
              model.splice(at, 1)
            } else model[at] = table.update(id, (old) => ({ ...old, text: `updated ${turn}` }))!
          }
        })
        expect(table.size).toBe(model.length)
        const pages: Item[] = []
        for (let at = 0; at < model.length; at += size) pages.push(...table.slice(at, size))
        expect(pages).toEqual(model)
        expect(table.slice(0, 1000, true)).toEqual(model.toReversed())
        expect(table.slice(2, size, true)).toEqual(model.toReversed().slice(2, 2 + size))
        const scanned: Item[] = []
        for (let token: number | null = 0; token !== null; ) {
          const { rows, next }: { rows: Item[]; next: number | null } = table.scan(token, size)
          scanned.push(...rows)
          token = next
        }
        expect(scanned).toEqual(model)
        for (const item of model) expect(table.get(item.id)).toEqual(item)
      }),
    )
  })
})

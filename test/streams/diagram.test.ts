/** docs/warehouse.svg is the diagram of today's catalogue; UPDATE_DOCS=1 draws it again. */
import { readFileSync, writeFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { ALL_STREAMS } from '../../src/streams/catalogue.ts'
import { entityDiagram, RELATIONS } from '../../src/streams/diagram.ts'
import { TABLES } from './fixtures/all.ts'

const file = new URL('../../docs/warehouse.svg', import.meta.url)

it('docs/warehouse.svg is the diagram of the catalogue', () => {
  if (process.env.UPDATE_DOCS === '1') writeFileSync(file, entityDiagram())
  expect(readFileSync(file, 'utf8')).toBe(entityDiagram())
})

it('has every table and column of a stream once, and a line for each reference to another stream', () => {
  const svg = entityDiagram()
  const texts = [...svg.matchAll(/<text [^>]*>([^<]*)<\/text>/g)].map(([, text]) => text!)
  const tables = ALL_STREAMS.flatMap(({ table, children, reading }) => [
    ...[table, ...children.map((child) => child.table)],
    ...(reading?.kind === 'files' ? reading.tables.map((own) => own.table) : []),
  ])
  expect(texts.filter((text) => tables.includes(text)).sort()).toEqual([...tables].sort())
  const own = new Map(
    tables.map((table) => [
      table,
      ALL_STREAMS.findIndex((stream) => JSON.stringify(stream).includes(`"${table}"`)),
    ]),
  )
  const across = RELATIONS.filter(({ one, many }) => own.get(one) !== own.get(many))
  expect(across.length).toBeGreaterThan(10)
  expect(texts.filter((text) => text.includes(' → ')).sort()).toEqual(
    across.map(({ one, by }) => `${by} → ${one}`).sort(),
  )
  expect(svg.match(/<path /g)).toHaveLength(across.length)
  for (const table of tables) {
    const from = texts.indexOf(table)
    const next = texts.findIndex((text, at) => at > from && tables.includes(text))
    const lines = texts.slice(from + 1, next < 0 ? undefined : next)
    const names = lines.flatMap((text) => text.split(/, ?| → .*$/)).filter((name) => name !== '')
    const expected = Object.keys(TABLES[table]!.columns).filter(
      (name) => name !== 'team_id' && !name.startsWith('_'),
    )
    expect([table, names.sort()]).toEqual([table, expected.sort()])
  }
})

it('boxes do not overlap, and no text is wider than its box', () => {
  const svg = entityDiagram()
  const boxes = [...svg.matchAll(/<rect x="(\d+)" y="(\d+)" width="(\d+)" height="(\d+)"/g)].map((found) => {
    const [x, y, width, height] = found.slice(1).map(Number) as [number, number, number, number]
    return { left: x, top: y, right: x + width, bottom: y + height }
  })
  expect(boxes).toHaveLength(ALL_STREAMS.length)
  for (const [at, a] of boxes.entries())
    for (const b of boxes.slice(at + 1))
      expect(a.right < b.left || b.right < a.left || a.bottom < b.top || b.bottom < a.top).toBe(true)
  for (const [, text] of svg.matchAll(/<text [^>]*>([^<]*)<\/text>/g))
    expect(text!.length * 6.65).toBeLessThan(272)
})

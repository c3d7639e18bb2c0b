/** An export as a caller gets it: the order of its cells where titles repeat, and a file name that is safe everywhere. */
import { describe, expect, it } from 'vitest'
import type { ExportAnswer } from '../../../src/emulator/http/answer.ts'
import { render, whole } from '../../../src/emulator/http/render.ts'
import { shapeNamed } from '../../../src/emulator/shapes/catalogue.ts'

function exportOf(format: ExportAnswer['format'], titles: string[], batches: string[][][], name = 'x') {
  async function* rows() {
    yield* batches
  }
  return { type: 'export', format, name, table: { titles, rows: rows() } } satisfies ExportAnswer
}

const TITLES = ['a', 'b', 'a', '__proto__', '10', '2']
const BATCHES = [
  [
    ['1', '2', '3', '4', '5', '6'],
    ['', '', '', '', '', ''],
  ],
  [['x', 'y', '', 'null', '7"', '\n']],
]

describe('an export', () => {
  it.each<[string, ExportAnswer['format'], string, string]>([
    [
      ...(['default', 'json', 'application/json'] as const),
      '[{"a":"3","b":"2","__proto__":"4","10":"5","2":"6"},' +
        '{"a":null,"b":null,"__proto__":null,"10":null,"2":null},' +
        '{"a":null,"b":"y","__proto__":"null","10":"7\\"","2":"\\n"}]',
    ],
    [
      ...(['export-json-rows', 'json', 'application/json'] as const),
      '{"headers":["a","b","a","__proto__","10","2"],"rows":[["1","2","3","4","5","6"],' +
        '[null,null,null,null,null,null],["x","y",null,"null","7\\"","\\n"]]}',
    ],
    [
      ...(['default', 'raw_text', 'text/plain; charset=utf-8'] as const),
      'a,b,a,__proto__,10,2\r\n1,2,3,4,5,6\r\n,,,,,\r\nx,y,,null,"7""","\n"\r\n',
    ],
    [
      ...(['raw-text-bom', 'raw_text', 'text/plain; charset=utf-8'] as const),
      '\ufeffa,b,a,__proto__,10,2\r\n1,2,3,4,5,6\r\n,,,,,\r\nx,y,,null,"7""","\n"\r\n',
    ],
    [
      ...(['raw-text-csv', 'raw_text', 'text/csv; charset=utf-8'] as const),
      'a,b,a,__proto__,10,2\r\n1,2,3,4,5,6\r\n,,,,,\r\nx,y,,null,"7""","\n"\r\n',
    ],
    [
      ...(['raw-text-quoted', 'raw_text', 'application/json'] as const),
      '"a,b,a,__proto__,10,2\\r\\n1,2,3,4,5,6\\r\\n,,,,,\\r\\nx,y,,null,\\"7\\"\\"\\",\\"\\n\\"\\r\\n"',
    ],
  ])('in the shape %s as %s has its columns in order, and its rows', async (shape, format, type, text) => {
    const { status, headers, body } = render(exportOf(format, TITLES, BATCHES), shapeNamed(shape, '1'))
    expect([status, headers, await whole(body)]).toEqual([200, { 'content-type': type }, text])
  })

  it('without rows has its titles, or an empty list', async () => {
    const text = async (format: ExportAnswer['format'], shape = 'default') =>
      whole(render(exportOf(format, ['a', 'b'], []), shapeNamed(shape, '1')).body)
    expect([await text('json'), await text('raw_text'), await text('json', 'export-json-data')]).toEqual([
      ...['[]', 'a,b\r\n', '{"data":[]}'],
    ])
  })
})

describe('the name of a file', () => {
  const headerOf = (name: string) =>
    render(exportOf('download_file', ['a'], [], name), shapeNamed('default', '1')).headers[
      'content-disposition'
    ]!
  /** The name in any script, or the plain one if that is the same. */
  const fileOf = (name: string) => {
    const header = headerOf(name)
    const [, encoded] = /filename\*=UTF-8''(.*)$/.exec(header) ?? []
    return encoded === undefined ? /filename="(.*)"$/.exec(header)?.[1] : decodeURIComponent(encoded)
  }

  it('has an underscore for each character that a system forbids or that hides another', () => {
    const codes = [
      ...[0, 9, 10, 13, 31, 0x7f, 0x85, 0x9f, 0x200e, 0x200f, 0xfeff],
      ...[0x2028, 0x2029, 0x202a, 0x202e, 0x2066, 0x2069],
    ]
    const unsafe = [...codes.map((code) => String.fromCharCode(code)), ...'<>:"/\\|?*']
    for (const one of unsafe) expect([one, fileOf(`ä${one}b${one}${one}c`)]).toEqual([one, 'ä_b__c.csv'])
    for (const one of [0xa0, 0x200d, 0x2027, 0x202f, 0x2065, 0x206a].map((code) => String.fromCharCode(code)))
      expect(fileOf(`ä${one}b`)).toBe(`ä${one}b.csv`)
  })

  it('has a hundred characters at most, no half of one, and no dot or blank at either end', () => {
    expect(fileOf(`${'ä'.repeat(100)}x`)).toBe(`${'ä'.repeat(100)}.csv`)
    expect(fileOf(`${'ä'.repeat(99)}🙂`)).toBe(`${'ä'.repeat(99)}\ufffd.csv`)
    expect(fileOf(' . ä b. c .. ')).toBe('ä b. c.csv')
    expect(fileOf(`${'ä'.repeat(99)} x`)).toBe(`${'ä'.repeat(99)}.csv`)
    for (const nothing of ['', '...', ' . '])
      expect(headerOf(nothing)).toBe('attachment; filename=export.csv')
  })
})

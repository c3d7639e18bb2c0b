/** Templates of the console with data of the test. */
import { join } from 'node:path'
import { Eta } from 'eta'
import * as format from '../../../src/console/format.ts'

const eta = new Eta({ views: join(import.meta.dirname, '../../../src/console/views'), autoEscape: true })

export const PAGE = {
  ...{
    title: 'A title',
    assets: {},
    token: 'a-token',
    waits: false,
    version: '1',
    path: '/',
    canBreak: false,
    isLive: true,
  },
  visitor: { login: 'ada', role: 'operator' } as { login: string; role: string } | null,
}
export const html = (view: string, data: object, page: Partial<typeof PAGE> = {}) =>
  eta.render(view, { ...data, page: { ...PAGE, ...page }, f: format })
/** The words of marks, each with its class. */
export const marksIn = (text: string) =>
  [...text.matchAll(/class="mark (\w+)">([^<]*)</g)].map(([, mark, word]) => `${mark}: ${word}`)

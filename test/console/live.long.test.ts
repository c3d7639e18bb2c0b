/** Open pages learn that something changed, in turn. */
import { expect, it } from 'vitest'
import { openWarehouse } from '../e2e/support/scene.ts'
import { startConsole } from './support/console.ts'

it('every open page is notified of a change, at most ten at once, and none after a logout', async () => {
  const warehouse = await openWarehouse()
  const page = await startConsole(warehouse.url)
  const reader = await page.enter('viewer')
  const leaving = await page.enter('viewer')
  const closing = new AbortController()
  let ended = 0
  const listen = async ({ cookie }: { readonly cookie: string }) => {
    const heard = { changed: 0, same: 0, closed: Promise.resolve() }
    const init = { headers: { cookie }, signal: closing.signal }
    const response = await fetch(`http://127.0.0.1:${page.port}/live`, init)
    const read = async () => {
      for await (const text of response.body!.pipeThrough(new TextDecoderStream())) {
        heard.changed += text.split('event: changed').length - 1
        heard.same += text.split(': same').length - 1
      }
      ended += 1
    }
    heard.closed = read().catch(() => {})
    return heard
  }
  const pages: Awaited<ReturnType<typeof listen>>[] = []
  for (let count = 0; count < 14; count++) pages.push(await listen(reader))
  pages.push(await listen(leaving))
  try {
    const isHeard = async () => {
      // Each login is an audited change. What later ones are compared with must have been read.
      if (pages.some(({ same }) => same > 0)) await page.enter('viewer')
      return pages.every(({ changed }) => changed >= 2)
    }
    await expect.poll(isHeard, { interval: 2_500 }).toBe(true)
    const sum = (kind: 'changed' | 'same') => pages.reduce((total, each) => total + each[kind], 0)
    // Of the fifteen pages, at least five hear in each round that nothing is to be done; the last round may be on its way.
    expect(sum('changed')).toBeLessThanOrEqual(2 * sum('same') + 10)
    await leaving.post('/logout')
    await expect.poll(() => ended).toBe(1)
  } finally {
    closing.abort()
    await Promise.all(pages.map(({ closed }) => closed))
    await page.close()
    await warehouse.drop()
  }
})

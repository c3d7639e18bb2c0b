/** Stored pages of known entries as a test says, and everything that they were asked for. */
import type { KnownPage, NotedPage } from '../../../src/extract/scan/known-pages.ts'

/** What the stored pages were asked for, in order. */
export const asked: unknown[] = []
export const stored = new Map<number, KnownPage>()
export const storing = { wait: async () => {} }

/** In place of that of `known-pages.ts`. */
export async function openKnownPages(_source: unknown, _session: unknown, options: object) {
  asked.push(options)
  return {
    firsts: new Map([...stored].map(([page, { bytes }]) => [page, bytes.slice(0, 32)])),
    async load(pages: readonly number[]) {
      asked.push(`load ${pages.join()}`)
      return pages.flatMap((page) => stored.get(page) ?? [])
    },
    async store(pages: readonly NotedPage[]) {
      asked.push(`store ${pages.map(({ page }) => page).join()}`)
      for (const page of pages) asked.push(page)
      await storing.wait()
      asked.push('stored')
    },
    settle: async (pages: number | null) => void asked.push(`settle ${pages}`),
    forgetUnstored: async () => void asked.push('forget'),
  }
}

export function forgetAll(): void {
  asked.length = 0
  stored.clear()
  storing.wait = async () => {}
}

/** Pages that were stored. */
export const noted = () =>
  asked.filter((each): each is NotedPage => typeof each === 'object' && each !== null && 'page' in each)
export const calls = () => asked.filter((each) => typeof each === 'string')

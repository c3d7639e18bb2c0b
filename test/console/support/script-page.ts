/** The script of the pages, in a page that consists of what it asks for. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createContext, runInContext } from 'node:vm'
import { vi } from 'vitest'

const SCRIPT = readFileSync(join(import.meta.dirname, '../../../src/console/assets/console.js'), 'utf8')

interface Part {
  scrollLeft: number
  open: boolean
}

interface Options {
  readonly series: readonly { readonly label?: string }[]
  readonly width: number
}

/** A page with this content, loaded. */
export function openPage(
  attributes: readonly string[],
  parts: { scroll?: Part[]; details?: Part[]; samples?: object[]; weeks?: object[]; width?: number } = {},
) {
  const listeners = new Map<string, (() => void)[]>()
  const listen = (name: string, listener: () => void) =>
    void listeners.set(name, [...(listeners.get(name) ?? []), listener])
  const state = {
    attributes: new Set(attributes),
    hidden: false,
    active: null as object | null,
    loads: 0,
    isAway: false,
  }
  const drawn: { options: Options; data: unknown[]; place: object }[] = []
  const asked: unknown[][] = []
  function empty() {
    region.emptied += 1
  }
  const region = {
    ...{ clientWidth: parts.width ?? 500, emptied: 0, replaceChildren: empty },
    dataset: { samples: '/inbox/samples', weeks: JSON.stringify(parts.weeks ?? []) },
  }
  const { scroll = [], details = [] } = parts
  const content = {
    hasAttribute: (name: string) => state.attributes.has(name),
    contains: (each: object | null) => each !== null && !('outside' in each),
    querySelectorAll: (name: string) => (name === 'details' ? details : scroll),
  }
  const document = {
    getElementById: () => content,
    get activeElement() {
      return state.active
    },
    get hidden() {
      return state.hidden
    },
    documentElement: {},
    body: { addEventListener: listen },
    addEventListener: listen,
    querySelector: () => (parts.samples === undefined ? null : region),
    querySelectorAll: (name: string) =>
      name === '[data-weeks]' && parts.weeks !== undefined ? [region] : [],
  }
  let isOpened = false
  class EventSource {
    constructor(path: string) {
      isOpened = path === '/live'
    }
    addEventListener = listen
  }
  class uPlot {
    constructor(options: Options, data: unknown[], place: object) {
      drawn.push({ options, data, place })
    }
  }
  /** The server's answer replaces the content. */
  const ajax = async (...words: unknown[]) => {
    asked.push(words)
    state.loads += 1
    if (state.isAway) throw new Error('away')
    for (const each of [...scroll, ...details]) Object.assign(each, { scrollLeft: 0, open: false })
  }
  const fetch = async (path: string) => {
    asked.push([path])
    if (state.isAway) throw new Error('away')
    return { json: async () => ({ samples: parts.samples }) }
  }
  const window = { htmx: { ajax }, uPlot }
  const getComputedStyle = () => ({ getPropertyValue: (name: string) => ` of ${name}` })
  const timers = { setTimeout, clearTimeout, setInterval, Date }
  runInContext(
    SCRIPT,
    createContext({
      document,
      window,
      location: { href: '/runs?of=north' },
      EventSource,
      fetch,
      getComputedStyle,
      ...timers,
    }),
  )
  const emit = (name: string) => {
    for (const listener of listeners.get(name) ?? []) listener()
  }
  emit('DOMContentLoaded')
  const pass = (milliseconds: number) => vi.advanceTimersByTimeAsync(milliseconds)
  return { state, emit, pass, drawn, asked, region, isLive: () => isOpened }
}

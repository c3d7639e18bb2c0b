/** Generated pages of records, as the bytes of their bodies. */
import type { Stream } from '../../src/streams/stream.ts'

/** The records that a benchmark loads. */
export interface Sample {
  readonly stream: Stream
  readonly pageSize: number
  /** A page of a list of `total` records; `page` counts from 0. */
  readonly pageAt: (page: number, total: number) => Buffer
}

export function sampleOf(stream: Stream, pageSize: number, make: (index: number) => unknown): Sample {
  return {
    stream,
    pageSize,
    pageAt(page, total) {
      const from = page * pageSize
      const to = Math.min(total, from + pageSize)
      const results = Array.from({ length: to - from }, (_, at) => make(from + at))
      const next = to < total ? `http://127.0.0.1/v2/${stream.name}?page=${page + 2}` : null
      return Buffer.from(JSON.stringify({ count: total, next, previous: null, results }))
    },
  }
}

/** The number of pages of a list of `total` records. */
export function pagesOf({ pageSize }: Sample, total: number): number {
  return Math.ceil(total / pageSize)
}

/** Spread like random ids, so that the whole index is written, as in production. */
export function uuid(index: number): string {
  const hex = (Math.imul(index + 1, 0x9e3779b1) >>> 0).toString(16).padStart(8, '0')
  const tail = (Math.imul(index + 7, 0x85ebca6b) >>> 0).toString(16).padStart(8, '0')
  return `${hex}-${tail.slice(0, 4)}-4${tail.slice(4, 7)}-8${hex.slice(0, 3)}-${tail}${hex.slice(4)}`
}

export function stampOf(index: number): string {
  return `2026-0${(index % 9) + 1}-1${index % 10}T0${index % 10}:15:30.${String((index * 7919) % 1_000_000).padStart(6, '0')}Z`
}

import type { TeamSource } from '../../../src/extract/backfill-options.ts'

/** A team whose service does not answer. */
export const sourceNamed = (name: string): TeamSource => ({
  ...{ name, baseUrl: 'http://127.0.0.1:1', apiKey: 'k', apiSecret: 's', apiVersion: '', concurrency: 1 },
})

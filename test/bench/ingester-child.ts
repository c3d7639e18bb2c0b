/**
 * An ingester in a process of its own, with a young generation like that of `serve`; prints its address, and ends with
 * its standard input.
 */
import { createInterface } from 'node:readline'
import { keepYoungGenerationSmall } from '../../src/operate/serve/young-generation.ts'

keepYoungGenerationSmall()
const { openBenchIngester } = await import('./ingester.ts')
await using ingester = await openBenchIngester(process.argv[2]!)
process.stdout.write(`${ingester.url}\n`)
for await (const _ of createInterface({ input: process.stdin }));

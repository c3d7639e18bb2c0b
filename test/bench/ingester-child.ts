/** An ingester in a process of its own, with the flags of docs/deploy; prints its address, and ends with its standard input. */
import { createInterface } from 'node:readline'
import { openBenchIngester } from './ingester.ts'

await using ingester = await openBenchIngester(process.argv[2]!)
process.stdout.write(`${ingester.url}\n`)
for await (const _ of createInterface({ input: process.stdin }));

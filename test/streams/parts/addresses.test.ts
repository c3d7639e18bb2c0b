/** Which texts are addresses, signed addresses and images, and which only look like them. */
import { expect, test } from 'vitest'
import {
  beginsAsAddress,
  isInlineData,
  isInlineImage,
  isSigned,
  withoutQuery,
} from '../../../src/streams/parts/response-parts.ts'

test.each([
  ['https://a.example.com/x?y=1#z', 'https://a.example.com/x'],
  ['https://a.example.com/x#z?y', 'https://a.example.com/x'],
  ['https://a.example.com/x', 'https://a.example.com/x'],
  ['?y', ''],
  ['', ''],
])('%s without its query is %s', (address, kept) => {
  expect(withoutQuery(address)).toBe(kept)
})

test.each([
  ['https://a.example.com', true],
  ['HTTP://A', true],
  [' //a.example.com/x', true],
  ['s3+x-1.y://bucket', true],
  [`${'a'.repeat(21)}://x`, true],
  [`${'a'.repeat(22)}://x`, false],
  ['1a://x', false],
  ['see https://a.example.com', false],
  ['https:/a', false],
  ['/a//b', false],
])('%j begins as an absolute address: %s', (text, expected) => {
  expect(beginsAsAddress(text)).toBe(expected)
})

test.each([
  ['data:,x', true],
  [' DATA:image/png;base64,AAAA', true],
  [`data:${'a'.repeat(200)},`, true],
  [`data:${'a'.repeat(201)},`, false],
  ['data: is what, I mean', false],
  ['data:text', false],
  ['my data:,x', false],
])('%j is bytes written as text: %s', (text, expected) => {
  expect(isInlineData(text)).toBe(expected)
})

test.each([
  ['data:image/png;base64,AAAA', true],
  [' data:image/svg+xml,%3Csvg%3E \n', true],
  ['DATA:IMAGE/X-icon;a=b;c,', true],
  ['data:image/png;base64,AAAA and words', false],
  ['data:image/,AAAA', false],
  [`data:image/${'a'.repeat(50)},`, true],
  [`data:image/${'a'.repeat(51)},`, false],
  [`data:image/png;${'a'.repeat(200)},`, true],
  [`data:image/png;${'a'.repeat(201)},`, false],
  ['data:image/png base64,AAAA', false],
  ['data:text/plain,AAAA', false],
  ['x data:image/png,AAAA', false],
])('%j is one image and nothing else: %s', (text, expected) => {
  expect(isInlineImage(text)).toBe(expected)
})

test.each([
  ['https://a.example.com/x?signature=1', true],
  ['https://a.example.com/x?a=1&Signature=1', true],
  ['https://a.example.com/x?a=1&amp;sig=1', true],
  ['https://a.example.com/x#sig=1', true],
  ['https://a.example.com/x?X-Amz-Signature=1', true],
  ['https://a.example.com/x?x-goog-signature=1', true],
  [' https://a.example.com/x?sig=1 ', true],
  ['https://a.example.com/x?design=1', false],
  ['https://a.example.com/x?signature', false],
  ['https://a.example.com/signature=1', false],
  ['https://a.example.com/x?sig=1 is the one', false],
  ['https://a.example.com/x y?sig=1', false],
  ['https://a.example.com/x  y?sig=1', false],
  ['x?sig=1', false],
])('%j lets in whoever has it: %s', (address, expected) => {
  expect(isSigned(address)).toBe(expected)
})

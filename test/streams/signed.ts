/** A response in which everything that can be signed is signed, in each possible place. */

export const IMAGE_BYTES = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ'

export const signedBy = (key: string) => ({
  id: 'r',
  answers: [
    {
      question: { id: 'q', text: 'Where?' },
      answer_text: `https://files.example.com/given?X-Amz-Signature=${key}`,
      uploads: [
        { id: 'x', name: 'a.png', url: `https://files.example.com/nested?expires=1&signature=${key}` },
      ],
      signatures: [{ id: 's', image: { href: `https://files.example.com/nested-image?sig=${key}#${key}` } }],
    },
  ],
  files: [
    { id: 'x', url: `https://files.example.com/file?token=${key}`, thumbnail_url: `/thumb?${key}` },
    { id: 'z', source: `https://files.example.com/a file?token=${key}` },
    { id: 'y', url: [`https://files.example.com/list?token=${key}`] },
    `https://files.example.com/bare?${key}`,
  ],
  attachments: `https://files.example.com/text?${key}`,
  e_signatures: [
    { id: 's', image: `https://files.example.com/image?signature=${key}` },
    { id: 't', url: `//files.example.com/image?${key}`, data: `data:image/png;base64,${IMAGE_BYTES}${key}` },
    { id: 'u', image: `${IMAGE_BYTES}${key}` },
  ],
  summary_pdf: `https://files.example.com/unknown?Expires=1&Signature=${key}`,
  photo: { inline: `data:image/jpeg;base64,${key}` },
})

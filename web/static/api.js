// The HTTP side: JSON in, JSON out, problems as errors.

export async function call(method, path, body) {
  const request = { method, headers: {} };
  if (body !== undefined) {
    request.body = JSON.stringify(body);
    request.headers["Content-Type"] = "application/json";
  }
  return answer(await fetch(path, request));
}

export async function upload(path, file) {
  return answer(await fetch(path, { method: "PUT", body: file }));
}

async function answer(response) {
  if (response.status === 401) {
    location.reload(); // the page is the login form then
    return new Promise(() => {});
  }
  if (!response.ok) {
    const problem = await response.json().catch(() => ({ detail: response.statusText }));
    throw new Error(problem.detail);
  }
  return response.status === 204 ? null : response.json();
}

export const sessionPath = (id, rest = "") => `/v1/sessions/${encodeURIComponent(id)}${rest}`;

export const filePath = (id, path) => sessionPath(id, `/files/${path.split("/").map(encodeURIComponent).join("/")}`);

// newID works without a secure context, unlike crypto.randomUUID.
export function newID() {
  const random = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(random, (b) => b.toString(16).padStart(2, "0")).join("");
}
